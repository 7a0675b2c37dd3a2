// The link from a fork to its parent: both may have the same title.

import { get } from "../lib/api.js";
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { useLoaded } from "./loaded.js";

/** The line below the title of a fork. @param {{of: {thread: string, until: number} | null}} props */
export const ForkOf = ({ of }) => of && html`<${Line} key=${of.thread} thread=${of.thread} />`;

/** @param {{thread: string}} props */
function Line({ thread }) {
  const read = useLoaded((stop) => get(`/threads/${thread}`, { stop }), [thread]);
  const { value, error } = /** @type {any} */ (read);
  // The parent may have been deleted, or may belong to another user.
  const isGone = [403, 404].includes(error?.status);
  const isUnread = error && !isGone;
  const missing = isGone ? "an unavailable conversation" : isUnread ? "a conversation that could not be loaded" : "…";
  const name = value ? html`<a href=${`/chat/${thread}`}>${value.title || "an untitled conversation"}</a>` : missing;
  return html`<p class="fork-of quiet"><${Icon} name="fork" size=${14} /> <span class="clip">Fork of ${name}</span>
    ${isUnread && html`<button type="button" class="plain" onClick=${read.again}>Try again</button>`}</p>`;
}
