// What a conversation is a fork of: both may have the same title.

import { get } from "../lib/api.js";
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { useLoaded } from "./loaded.js";

/** A line below the name of a fork. @param {{of: {thread: string, until: number} | null}} props */
export const ForkOf = ({ of }) => of && html`<${Line} key=${of.thread} thread=${of.thread} />`;

/** @param {{thread: string}} props */
function Line({ thread }) {
  const read = useLoaded((stop) => get(`/threads/${thread}`, { stop }), [thread]);
  const { value, error } = /** @type {any} */ (read);
  // It may be deleted, or somebody else's.
  const isGone = [403, 404].includes(error?.status);
  const isUnread = error && !isGone;
  const missing = isGone ? "a conversation that is not here" : isUnread ? "a conversation that could not be read" : "…";
  const name = value ? html`<a href=${`/chat/${thread}`}>${value.title || "a conversation without a title"}</a>` : missing;
  return html`<p class="fork-of quiet"><${Icon} name="fork" size=${14} /> <span class="clip">Fork of ${name}</span>
    ${isUnread && html`<button type="button" class="plain" onClick=${read.again}>Try again</button>`}</p>`;
}
