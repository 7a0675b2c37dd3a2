// Sends the messages of a run again, with their model, mode and attachments.

import { zone } from "./outgoing.js";

/**
 * @typedef {import("./conversation.js").Conversation} Conversation
 * @typedef {import("./entry.js").Entry} Entry
 */

/**
 * Returns the user's messages of a run, from its first message.
 * @param {Conversation} conversation @param {string} run
 */
export async function saidIn(conversation, run) {
  // If a run has many steps, its first message may be on an older page.
  while (conversation.hasOlder.value && conversation.entries.value[0]?.run === run) await conversation.older();
  return conversation.entries.value.filter((one) => one.role === "user" && one.run === run);
}

/** Joins the texts of messages. @param {Entry[]} said */
export function words(said) {
  if (!said.every((one) => one.isWhole)) throw new Error("The message is too long to be sent again from here.");
  return said.map((one) => one.text).join("\n\n");
}

/**
 * Returns the options of a message that repeats earlier messages: model, mode, attachments and time zone.
 * @param {string} thread of the messages @param {Entry[]} said
 */
export function along(thread, said) {
  const { model, mode } = said[0] ?? { model: "", mode: "" };
  const attachments = said.filter((one) => one.media.length > 0).map((one) => ({ thread, message: one.seq }));
  return { ...(model ? { model } : {}), ...(mode ? { mode } : {}), ...(attachments.length > 0 ? { attachments } : {}), ...zone() };
}

/** @param {Conversation} conversation @param {string} run @param {string} key the idempotency key */
export async function sayAgain(conversation, run, key) {
  const said = await saidIn(conversation, run);
  await conversation.sending.send(words(said), along(conversation.id, said), key);
}
