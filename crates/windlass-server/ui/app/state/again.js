// Saying once more what was said to a run, with what went with it.

import { zone } from "./outgoing.js";

/**
 * @typedef {import("./conversation.js").Conversation} Conversation
 * @typedef {import("./entry.js").Entry} Entry
 */

/** What was said to a run, from the message that it began with. @param {Conversation} conversation @param {string} run */
export async function saidIn(conversation, run) {
  // A run of many steps has its message further up.
  while (conversation.hasOlder.value && conversation.entries.value[0]?.run === run) await conversation.older();
  return conversation.entries.value.filter((one) => one.role === "user" && one.run === run);
}

/** What messages say, as one. @param {Entry[]} said */
export function words(said) {
  if (!said.every((one) => one.isWhole)) throw new Error("Not all that was said could be read: it is too long to be sent again from here.");
  return said.map((one) => one.text).join("\n\n");
}

/** What goes with messages that are said again as one. @param {string} thread where they stand @param {Entry[]} said */
export function along(thread, said) {
  const { model, mode } = said[0] ?? { model: "", mode: "" };
  const attachments = said.filter((one) => one.media.length > 0).map((one) => ({ thread, message: one.seq }));
  return { ...(model ? { model } : {}), ...(mode ? { mode } : {}), ...(attachments.length > 0 ? { attachments } : {}), ...zone() };
}

/** @param {Conversation} conversation @param {string} run @param {string} key under which it is sent once */
export async function sayAgain(conversation, run, key) {
  const said = await saidIn(conversation, run);
  await conversation.sending.send(words(said), along(conversation.id, said), key);
}
