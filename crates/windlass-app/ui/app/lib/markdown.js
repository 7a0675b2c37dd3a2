// Markdown that nobody is trusted with: parsed, then sanitised. HTML in it is text, and nothing is fetched for it.

import createDOMPurify from "../../vendor/dompurify.js";
import { Marked } from "../../vendor/marked.js";

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** A language as a class may name it. @param {string | undefined} name */
const language = (name) => (name ?? "").trim().split(/\s/)[0].replace(/[^\w+#.-]/g, "").slice(0, 32);

const marked = new Marked({
  gfm: true,
  breaks: false,
  async: false,
  renderer: {
    html: ({ text }) => escaped(text),
    code({ text, lang }) {
      const name = language(lang);
      const bar = `<div class="code-bar"><span>${escaped(name || "text")}</span><button type="button" data-copy="code">Copy</button></div>`;
      return `<div class="code">${bar}<pre tabindex="0"><code${name ? ` class="language-${escaped(name)}"` : ""}>${escaped(text)}</code></pre></div>`;
    },
    // A picture's address would tell its server what was said.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || "picture")}</a>`,
    table({ header, rows }) {
      const cell = (/** @type {any} */ one, /** @type {string} */ tag) => `<${tag}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      const head = header.map((/** @type {any} */ one) => cell(one, "th")).join("");
      const body = rows.map((/** @type {any[]} */ row) => `<tr>${row.map((one) => cell(one, "td")).join("")}</tr>`).join("");
      return `<div class="table" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: "a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i input li ol p pre s span strong sub sup table tbody td th thead tr ul".split(" "),
  ALLOWED_ATTR: "checked class data-copy disabled href rel start tabindex target title type".split(" "),
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

/** Whether what is sanitised is a page for a frame. */
let isFramed = false;
const purifier = createDOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  // What a page in a frame names would be fetched with the session of whoever looks at it.
  if (isFramed) {
    const names = ["src", "srcset", "poster", "background", ...(node.tagName === "A" ? [] : ["href", "xlink:href"])];
    for (const name of names) if (!/^(?:data:image\/|#)/i.test(node.getAttribute(name) ?? "")) node.removeAttribute(name);
  }
  // Only the boxes of task lists are left of inputs.
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

/** Safe HTML of a Markdown text. @param {string} text @returns {any} */
export const rendered = (text) => purifier.sanitize(/** @type {string} */ (marked.parse(text)), ALLOWED);

/** HTML for a frame that can do nothing: without scripts, forms and what would be fetched even so. @param {string} text @returns {any} */
export function framed(text) {
  isFramed = true;
  try {
    return purifier.sanitize(text, { WHOLE_DOCUMENT: true, FORBID_TAGS: ["form", "area"], ALLOWED_URI_REGEXP: ALLOWED.ALLOWED_URI_REGEXP, RETURN_TRUSTED_TYPE: true });
  } finally {
    isFramed = false;
  }
}

/**
 * Where a text can be cut so that what stands before it stays as it is, whatever follows; 0 where it cannot yet.
 * @param {string} text @param {number} from where the piece begins @param {number} least characters of it
 */
export function settled(text, from, least) {
  let fence = "";
  for (let at = from; ; ) {
    const end = text.indexOf("\n", at);
    if (end < 0) return 0;
    const line = text.slice(at, end);
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (mark && !fence) fence = mark;
    else if (mark && mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark) fence = "";
    at = end + 1;
    // Lists and tables go on after a blank line where the next one is indented or begins with a mark.
    if (!fence && at - from >= least && line.trim() === "" && /^[^\s\-*+|>\d]/.test(text.slice(at, at + 1))) return at;
  }
}

/** @type {Promise<any> | null} */
let highlighter = null;

/** How long code is coloured before the page is let go on, in milliseconds. */
const AT_ONCE_MS = 8;

/** Colours the code in an element, bit by bit; the library comes with the first code that there is. @param {Element} root */
export async function highlight(root) {
  const blocks = [...root.querySelectorAll("code[class^=language-]:not([data-coloured])")];
  if (blocks.length === 0) return;
  highlighter ??= import("../../vendor/highlight.js").then((module) => module.default);
  const library = await highlighter;
  let begun = performance.now();
  for (const block of blocks) {
    if (performance.now() - begun > AT_ONCE_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      begun = performance.now();
    }
    const name = block.className.slice("language-".length);
    const text = block.textContent ?? "";
    block.setAttribute("data-coloured", "");
    if (!library.getLanguage(name) || text.length > 100_000) continue;
    const coloured = library.highlight(text, { language: name, ignoreIllegals: true }).value;
    block.innerHTML = purifier.sanitize(coloured, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_TRUSTED_TYPE: true });
  }
}
