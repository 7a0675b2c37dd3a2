// The signed-in user and their permissions.

import { expired, get, post, Problem, refresh, wait } from "../lib/api.js";
import { computed, signal } from "../lib/html.js";
import { failed } from "./notices.js";

/** @typedef {{id: string, email: string | null, name: string | null, role: "admin" | "member" | "viewer", workspace: string, has_password: boolean}} Me */

/** @type {import("../../vendor/signals.js").Signal<Me | null>} */
export const me = signal(null);
/** Whether `me` has been loaded. */
export const known = signal(false);
/**
 * Whether the session ended while the page is open: the user signs in again in a dialog, and the page keeps its state.
 */
export const interrupted = signal(false);

export const isAdmin = computed(() => me.value?.role === "admin");
/**
 * Whether the user may manage settings that all workspaces share, as the administrators of the workspace `default` may.
 */
export const isOperator = computed(() => isAdmin.value && me.value?.workspace === "default");
export const mayRun = computed(() => me.value !== null && me.value.role !== "viewer");

/**
 * Interval between token refreshes, in milliseconds: one minute less than the 15 minutes of an access token. (SK-U14)
 */
const REFRESH_MS = 14 * 60 * 1000;
/** Delay between attempts to load the user, in milliseconds. */
const LOOK_AGAIN_MS = 3000;

/** Loads the signed-in user. If the user has changed, reloads the page to drop the previous user's data. */
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

/** Loads the user, and retries until the load succeeds. */
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

/** Deletes the drafts of this tab and opens the sign-in page. */
function leave() {
  try {
    sessionStorage.clear();
  } catch {
    // Without session storage, there are no drafts.
  }
  location.replace("/login");
}

/** Refreshes the session regularly while the page is open. */
export function keep() {
  // If a refresh fails although the session is valid, the next request refreshes it.
  setInterval(() => me.value && refresh().catch(() => {}), REFRESH_MS);
  expired.subscribe((times) => {
    if (times > 0 && me.value) interrupted.value = true;
  });
}

/** Ends the session. Throws if the server did not end the session: the user is then still signed in. */
export async function signOut() {
  await post("/auth/logout", {}, { once: false }).catch((error) => {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
  });
  leave();
}
