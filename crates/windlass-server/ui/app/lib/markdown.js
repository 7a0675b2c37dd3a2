// Untrusted Markdown: parsed, then sanitized. HTML in the text is shown as text, and the browser sends no request for
// it.

import createDOMPurify from "../../vendor/dompurify.js";
import { Marked } from "../../vendor/marked.js";

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** Returns the language of a code block, reduced to characters of a class name. @param {string | undefined} name */
const language = (name) => (name ?? "").trim().split(/\s/)[0].replace(/[^\w+#.-]/g, "").slice(0, 32);

/**
 * Returns the alignment of a cell as a class: the content security policy forbids inline styles.
 * @param {string | null} align
 */
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
    // Fetching an image could leak the conversation to the image's server.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || "image")}</a>`,
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
  // The value of every attribute must match, except for attributes that cannot contain a URL.
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  ADD_URI_SAFE_ATTR: ["aria-label", "data-copy", "start", "tabindex", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

/** Attributes of a framed page that contain no URL: layout, and shapes of SVG. */
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
/** Attributes that may contain a URL, and the pattern of safe values: a colour or a fragment of the same page. */
const PAINTS = ["clip-path", "fill", "filter", "marker-end", "marker-mid", "marker-start", "mask", "stroke"];
const PAINT = /^(?:[^(\\]|(?:rgb|hsl)a?\(|url\(["']?#)*$/i;

const FRAMED = {
  // Remove these attributes, because the browser would fetch their URLs.
  FORBID_ATTR: ["background", "poster", "srcset"],
  ALLOWED_URI_REGEXP: ALLOWED.ALLOWED_URI_REGEXP,
  ADD_URI_SAFE_ATTR: [...HARMLESS, ...PAINTS],
  RETURN_TRUSTED_TYPE: true,
};

/** A framed page may load only `data:` images. */
const POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'";

/** Removes the attributes of an element that would send requests with the user's session. @param {Element} node */
function confine(node) {
  const [picture, part] = [/^data:image\//i, /^#/];
  /** @param {string} name @param {RegExp} may */
  const only = (name, may) => !may.test(node.getAttribute(name) ?? "") && node.removeAttribute(name);
  only("src", picture);
  for (const name of ["href", "xlink:href"]) if (node.tagName !== "A") only(name, node.tagName === "image" ? picture : part);
  for (const name of PAINTS) only(name, PAINT);
  if (node.tagName === "HEAD") node.before(policy(node.ownerDocument));
}

/**
 * Inserts the policy as a `meta` element before the head, which the sanitizer has already processed.
 * @param {Document} page
 */
function policy(page) {
  const own = page.createElement("meta");
  own.httpEquiv = "Content-Security-Policy";
  own.content = POLICY;
  return own;
}

/** Whether the sanitizer currently processes a framed page. */
let isFramed = false;
const purifier = createDOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (isFramed) confine(node);
  // The only inputs that remain are the checkboxes of task lists.
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

/** Renders Markdown as safe HTML. @param {string} text @returns {any} */
export const rendered = (text) => purifier.sanitize(/** @type {string} */ (marked.parse(text)), ALLOWED);

/**
 * Sanitizes HTML for a frame: removes scripts, forms, and all elements and attributes that would send a request.
 * @param {string} text @returns {any}
 */
export function framed(text) {
  isFramed = true;
  try {
    return purifier.sanitize(text, { WHOLE_DOCUMENT: true, FORBID_TAGS: ["form", "area"], ...FRAMED });
  } finally {
    isFramed = false;
  }
}

/**
 * Finds an offset at which a growing text can be cut: the text before the offset renders the same for any continuation.
 * Returns 0 if there is no such offset.
 * @param {string} text @param {number} from the start of the piece
 * @param {number} least its minimum length in characters
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
    // Lists and tables continue after a blank line if the next line is indented or starts with a marker.
    if (!fence && at - from >= least && line.trim() === "" && /^[^\s\-*+|>\d]/.test(text.slice(at, at + 1))) return at;
  }
}

/** @type {Promise<any> | null} */
let highlighter = null;

/** Maximum time of uninterrupted highlighting, in milliseconds. After this time, the event loop runs. */
const AT_ONCE_MS = 8;

/** Highlights the code in an element, in small tasks. The first code block loads the library. @param {Element} root */
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
