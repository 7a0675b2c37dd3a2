// Saying once more what was said to a run, with what went with it.

import { zone } from "./outgoing.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** What was said to a run, from the message that it began with. @param {Conversation} conversation @param {string} run */
export async function saidIn(conversation, run) {
  // A run of many steps has its message further up.
  while (conversation.hasOlder.value && conversation.entries.value[0]?.run === run) await conversation.older();
  return conversation.entries.value.filter((one) => one.role === "user" && one.run === run);
}

/** @param {Conversation} conversation @param {string} run @param {string} key under which it is sent once */
export async function sayAgain(conversation, run, key) {
  const said = await saidIn(conversation, run);
  const { model, mode } = said[0] ?? { model: "", mode: "" };
  const attachments = said.filter((one) => one.media.length > 0).map((one) => ({ thread: conversation.id, message: one.seq }));
  const options = { ...(model ? { model } : {}), ...(mode ? { mode } : {}), ...(attachments.length > 0 ? { attachments } : {}), ...zone() };
  await conversation.sending.send(said.map((one) => one.text).join("\n\n"), options, key);
}
