// The people that a journal names, by their names.

import { all } from "../lib/api.js";
import { signal, useEffect } from "../lib/html.js";
import { isAdmin, me } from "./session.js";

/** Those who are none. @type {Record<string, string>} */
const OTHERS = { engine: "Windlass", policy: "The policy" };

/** @type {import("../../vendor/signals.js").Signal<Map<string, string>>} */
const people = signal(new Map());
let asked = false;

/** Finds out who is who, as far as this person may know. */
export function usePeople() {
  useEffect(() => {
    if (asked || !isAdmin.value) return;
    asked = true;
    all("/team/members").then((page) => (people.value = new Map(page.data.map((one) => [one.id, one.name || one.email || one.id]))), () => (asked = false));
  }, []);
}

/** @param {string} by @returns {string} */
export const nameOf = (by) => (by === me.value?.id ? me.value.name || me.value.email : null) ?? people.value.get(by) ?? OTHERS[by] ?? by;
