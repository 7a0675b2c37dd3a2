// The icons. Each icon is decorative: its button has a text or a label.

import { html } from "../lib/html.js";

/** @type {Record<string, string>} */
const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM20 20l-4-4",
  inbox: "M4 13l3-8h10l3 8v6H4v-6Zm0 0h5l1 2h4l1-2h5",
  runs: "M5 6h14M5 12h9M5 18h12",
  library: "M5 4h4v16H5zM11 4h4v16h-4zM17 5l3 .6-2.6 14.6-3-.5",
  usage: "M5 20V10M12 20V4M19 20v-7",
  settings: "M4 8h9M19 8h1M16 5.500v5M4 16h1M11 16h9M8 13.500v5",
  panel: "M4 5h16v14H4zM10 5v14",
  stop: "M7 7h10v10H7z",
  send: "M5 12h13M12 5l7 7-7 7",
  attach: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l7-7",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  check: "M5 13l4 4L19 7",
  cross: "M6 6l12 12M18 6L6 18",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16Zm0 4v4l3 2",
  tool: "M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9Z",
  warn: "M12 4 2.500 20h19ZM12 10v4M12 17h.01",
  share: "M12 15V4m0 0L8 8m4-4 4 4M6 12H5v8h14v-8h-1",
  edit: "M5 19l1-4L16 5l3 3L9 18l-4 1Z",
  eye: "M3 12c2-4 5.500-6 9-6s7 2 9 6c-2 4-5.500 6-9 6s-7-2-9-6Zm9-2.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5Z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  fork: "M6 4v6a4 4 0 0 0 4 4h8M18 14l-3-3M18 14l-3 3M6 10v10",
};

/** @param {{name: string, size?: number}} props */
export const Icon = ({ name, size = 18 }) => html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name] ?? ""} /></svg>`;
