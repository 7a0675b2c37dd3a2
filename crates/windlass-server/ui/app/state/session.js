// Who is signed in, and what they may do.

import { expired, get, post, Problem, refresh, wait } from "../lib/api.js";
import { computed, signal } from "../lib/html.js";
import { failed } from "./notices.js";

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
/** How long a server that did not say who is signed in is left alone. */
const LOOK_AGAIN_MS = 3000;

/** Finds out who is signed in. What one person saw and typed is not left to another: then the page is loaded anew. */
export async function find() {
  const before = me.value;
  /** @type {Me | null} */
  let now = null;
  try {
    now = await get("/auth/me").catch(async (error) => {
      if (error.status === 401 && (await refresh())) return get("/auth/me");
      throw error;
    });
  } catch (error) {
    if (!(error instanceof Problem) || ![401, 403].includes(error.status)) throw error;
  }
  if (before && now && before.id !== now.id) return location.reload();
  if (before && !now) return interrupted.value ? undefined : leave();
  me.value = now;
  known.value = true;
  interrupted.value = false;
  if (now) expired.value = 0;
  return undefined;
}

/** Looks who is signed in until that is known. */
export async function begin() {
  for (let told = false; !known.value; ) {
    try {
      await find();
    } catch (error) {
      if (!told) failed(error);
      told = true;
      await wait(LOOK_AGAIN_MS);
    }
  }
}

/** Goes on as a page that knows nothing, in a tab that keeps no drafts. */
function leave() {
  try {
    sessionStorage.clear();
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
  location.replace("/login");
}

/** Keeps the session fresh while the page is open. */
export function keep() {
  // One that fails for another reason than the session's end is made up for by the next request.
  setInterval(() => me.value && refresh().catch(() => {}), REFRESH_MS);
  expired.subscribe((times) => {
    if (times > 0 && me.value) interrupted.value = true;
  });
}

/** Ends the session. Fails where the server did not, and then nobody is signed out. */
export async function signOut() {
  await post("/auth/logout", {}, { once: false }).catch((error) => {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
  });
  leave();
}
