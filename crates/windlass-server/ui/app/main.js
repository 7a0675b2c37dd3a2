// The entry point: starts the session and the router, and renders the app.

import { html, render } from "./lib/html.js";
import { begin } from "./lib/route.js";
import { failed } from "./state/notices.js";
import { begin as beginSession, keep } from "./state/session.js";
import { begin as beginLook } from "./state/look.js";
import { App } from "./app.js";

addEventListener("unhandledrejection", (event) => failed(event.reason));
beginLook();
begin();
const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
beginSession();
keep();
