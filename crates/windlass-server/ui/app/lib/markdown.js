// Markdown that nobody is trusted with: parsed, then sanitised. HTML in it is text, and nothing is fetched for it.

import createDOMPurify from "../../vendor/dompurify.js";
import { Marked } from "../../vendor/marked.js";

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** A language as a class may name it. @param {string | undefined} name */
const language = (name) => (name ?? "").trim().split(/\s/)[0].replace(/[^\w+#.-]/g, "").slice(0, 32);

/** Where the text of a cell stands: styles in a text are refused, classes are not. @param {string | null} align */
const aligned = (align) => (align === "right" || align === "center" ? ` class="to-${align}"` : "");

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
    checkbox: ({ checked }) => `<input type="checkbox" disabled aria-label="${checked ? "done" : "to do"}"${checked ? " checked" : ""}> `,
    // A picture's address would tell its server what was said.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || "picture")}</a>`,
    table({ header, rows }) {
      const cell = (/** @type {any} */ one, /** @type {string} */ tag) => `<${tag}${aligned(one.align)}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      const head = header.map((/** @type {any} */ one) => cell(one, "th")).join("");
      const body = rows.map((/** @type {any[]} */ row) => `<tr>${row.map((one) => cell(one, "td")).join("")}</tr>`).join("");
      return `<div class="table" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: "a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i input li ol p pre s span strong sub sup table tbody td th thead tr ul".split(" "),
  ALLOWED_ATTR: "aria-label checked class data-copy disabled href rel start tabindex target title type".split(" "),
  // What every attribute has to be, but for those that are known as no addresses.
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  ADD_URI_SAFE_ATTR: ["aria-label", "data-copy", "start", "tabindex", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

/** Attributes of a page in a frame that name no address: how it is laid out, and what is drawn in its SVG. */
const HARMLESS = [
  "align bgcolor border cellpadding cellspacing checked clear color cols colspan datetime dir face headers height hidden high lang low",
  "max media min nowrap open optimum reversed rows rowspan scope size span start tabindex translate type valign width wrap",
  "alignment-baseline amplitude baseline-shift clip-rule clippathunits color-interpolation-filters cx cy d diffuseconstant direction",
  "display divisor dominant-baseline dx dy edgemode exponent fill-opacity fill-rule filterunits flood-color flood-opacity font-family",
  "font-size font-style font-variant font-weight fx fy gradienttransform gradientunits in in2 intercept k1 k2 k3 k4 kernelmatrix",
  "lengthadjust letter-spacing lighting-color markerheight markerunits markerwidth maskcontentunits maskunits mode numoctaves offset",
  "opacity operator order orient overflow paint-order pathlength patterncontentunits patterntransform patternunits points",
  "preserveaspectratio primitiveunits r radius refx refy result rotate rx ry scale seed shape-rendering slope spreadmethod startoffset",
  "stddeviation stitchtiles stop-color stop-opacity stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit",
  "stroke-opacity stroke-width surfacescale tablevalues text-anchor text-decoration text-rendering textlength transform transform-origin",
  "values vector-effect viewbox visibility word-spacing writing-mode x x1 x2 xchannelselector y y1 y2 ychannelselector",
].flatMap((names) => names.split(" "));
/** Those whose value may name one, and values that are a colour or name a part of the same page. */
const PAINTS = ["clip-path", "fill", "filter", "marker-end", "marker-mid", "marker-start", "mask", "stroke"];
const PAINT = /^(?:[^(\\]|(?:rgb|hsl)a?\(|url\(["']?#)*$/i;

const FRAMED = {
  // What they name would be fetched.
  FORBID_ATTR: ["background", "poster", "srcset"],
  ALLOWED_URI_REGEXP: ALLOWED.ALLOWED_URI_REGEXP,
  ADD_URI_SAFE_ATTR: [...HARMLESS, ...PAINTS],
  RETURN_TRUSTED_TYPE: true,
};

/** What a page in a frame may fetch: pictures that stand in the text, and nothing from anywhere. */
const POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'";

/** Takes away what an element of a page in a frame would fetch with the session of whoever looks at it. @param {Element} node */
function confine(node) {
  const [picture, part] = [/^data:image\//i, /^#/];
  /** @param {string} name @param {RegExp} may */
  const only = (name, may) => !may.test(node.getAttribute(name) ?? "") && node.removeAttribute(name);
  only("src", picture);
  for (const name of ["href", "xlink:href"]) if (node.tagName !== "A") only(name, node.tagName === "image" ? picture : part);
  for (const name of PAINTS) only(name, PAINT);
  if (node.tagName === "HEAD") node.before(policy(node.ownerDocument));
}

/** The policy as what stands before all else, where the sanitiser has been already. @param {Document} page */
function policy(page) {
  const own = page.createElement("meta");
  own.httpEquiv = "Content-Security-Policy";
  own.content = POLICY;
  return own;
}

/** Whether what is sanitised is a page for a frame. */
let isFramed = false;
const purifier = createDOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (isFramed) confine(node);
  // Only the boxes of task lists are left of inputs.
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

/** Safe HTML of a Markdown text. @param {string} text @returns {any} */
export const rendered = (text) => purifier.sanitize(/** @type {string} */ (marked.parse(text)), ALLOWED);

/** HTML for a frame that can do nothing: without scripts, forms and what would be fetched even so. @param {string} text @returns {any} */
export function framed(text) {
  isFramed = true;
  try {
    return purifier.sanitize(text, { WHOLE_DOCUMENT: true, FORBID_TAGS: ["form", "area"], ...FRAMED });
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
