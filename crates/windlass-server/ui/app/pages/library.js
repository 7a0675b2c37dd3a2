// The library: tools and their sources, integrations, agents, and the policy.

import { html } from "../lib/html.js";
import { place } from "../lib/route.js";
import { Tabs } from "../view/data.js";
import { Later } from "../view/later.js";

const SECTIONS = [
  { path: "tools", name: "Tools", load: () => import("./library/tools.js") },
  { path: "toolsets", name: "Toolsets", load: () => import("./library/toolsets.js") },
  { path: "servers", name: "Tool servers", load: () => import("./library/servers.js") },
  { path: "integrations", name: "Integrations", load: () => import("./library/integrations.js") },
  { path: "agents", name: "Agents and models", load: () => import("./library/agents.js") },
  { path: "policy", name: "Policy", load: () => import("./library/policy.js") },
];

export function Page() {
  const asked = place.value.parts[1];
  const section = SECTIONS.find(({ path }) => path === asked) ?? SECTIONS[0];
  return html`<div class="page wide"><h1>Library</h1>
    <${Tabs} base="/library" sections=${SECTIONS} current=${section.path} label="Library sections" />
    <${Later} key=${section.path} load=${section.load} /></div>`;
}
