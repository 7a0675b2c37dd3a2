// The user's settings and, for administrators, the settings of the workspace.

import { html } from "../lib/html.js";
import { place } from "../lib/route.js";
import { isAdmin } from "../state/session.js";
import { Tabs } from "../view/data.js";
import { Later } from "../view/later.js";

const SECTIONS = [
  { path: "profile", name: "Profile", load: () => import("./settings/profile.js") },
  { path: "asking", name: "Approvals", load: () => import("./settings/asking.js") },
  { path: "grants", name: "Grants", load: () => import("./settings/grants.js") },
  { path: "shared", name: "Shared", load: () => import("./settings/shared.js") },
  { path: "keys", name: "API keys", load: () => import("./settings/keys.js") },
  { path: "sessions", name: "Sessions", load: () => import("./settings/sessions.js") },
  { path: "team", name: "Team", load: () => import("./settings/team.js") },
  { path: "audit", name: "Audit log", load: () => import("./settings/audit.js") },
  { path: "limits", name: "Limits", load: () => import("./settings/limits.js") },
  { path: "look", name: "Appearance", load: () => import("./settings/look.js") },
];

/** Sections that only administrators see. */
const OF_ADMINS = ["team", "audit"];

export function Page() {
  const asked = place.value.parts[1];
  const shown = SECTIONS.filter(({ path }) => !OF_ADMINS.includes(path) || isAdmin.value);
  const section = shown.find(({ path }) => path === asked) ?? shown[0];
  return html`<div class="page"><h1>Settings</h1>
    <${Tabs} base="/settings" sections=${shown} current=${section.path} label="Settings sections" />
    <${Later} key=${section.path} load=${section.load} /></div>`;
}
