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
  // It may be deleted, or somebody else's.
  const what = read.value ? html`<a href=${`/chat/${thread}`}>${read.value.title || "a conversation without a title"}</a>` : read.error ? "a conversation that is not here" : "…";
  return html`<p class="fork-of quiet"><${Icon} name="fork" size=${14} /> <span class="clip">Fork of ${what}</span></p>`;
}
