// Who is signed in, and what they may do.

import { expired, get, post, refresh } from "../lib/api.js";
import { computed, signal } from "../lib/html.js";

/** @typedef {{id: string, email: string | null, name: string | null, role: "admin" | "member" | "viewer", workspace: string, has_password: boolean}} Me */

/** @type {import("../../vendor/signals.js").Signal<Me | null>} */
export const me = signal(null);
/** Whether it is known by now who that is. */
export const known = signal(false);
/** Whether a session ended under somebody who was at work: they sign in again above their page, and lose nothing. */
export const interrupted = signal(false);

export const isAdmin = computed(() => me.value?.role === "admin");
/** Whether they run the store, with what all of its workspaces share. */
export const isOperator = computed(() => isAdmin.value && me.value?.workspace === "default");
export const mayRun = computed(() => me.value !== null && me.value.role !== "viewer");

/** The access token lasts 15 minutes; the next one is got a little before. (SK-U14) */
const REFRESH_MS = 14 * 60 * 1000;

/** Finds out who is signed in. */
export async function find() {
  try {
    me.value = await get("/auth/me").catch(async (error) => {
      if (error.status === 401 && (await refresh())) return get("/auth/me");
      throw error;
    });
    interrupted.value = false;
  } catch (error) {
    if (/** @type {any} */ (error).status !== 401) throw error;
    me.value = null;
  } finally {
    known.value = true;
  }
}

/** Keeps the session fresh while the page is open. */
export function keep() {
  setInterval(() => me.value && refresh(), REFRESH_MS);
  expired.subscribe((times) => {
    if (times > 0 && me.value) interrupted.value = true;
  });
}

export async function signOut() {
  await post("/auth/logout", {}, { once: false }).catch(() => {});
  me.value = null;
  interrupted.value = false;
}
