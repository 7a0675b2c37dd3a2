// Display names of the users that a journal refers to.

import { all } from "../lib/api.js";
import { signal, useEffect } from "../lib/html.js";
import { isAdmin, me } from "./session.js";

/** Names of actors that are not users. @type {Record<string, string>} */
const OTHERS = { engine: "Windlass", policy: "Policy" };

/** @type {import("../../vendor/signals.js").Signal<Map<string, string>>} */
const people = signal(new Map());
let asked = false;

/** Loads the names of the workspace's members. Only administrators may read them. */
export function usePeople() {
  useEffect(() => {
    if (asked || !isAdmin.value) return;
    asked = true;
    all("/team/members").then((page) => (people.value = new Map(page.data.map((one) => [one.id, one.name || one.email || one.id]))), () => (asked = false));
  }, []);
}

/** @param {string} by @returns {string} */
export const nameOf = (by) => (by === me.value?.id ? me.value.name || me.value.email : null) ?? people.value.get(by) ?? OTHERS[by] ?? by;
