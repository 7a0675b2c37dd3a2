// Markdown as plain text, without its markers. Code is copied unchanged.

import { Marked } from "../../vendor/marked.js";

const marked = new Marked({ gfm: true });

/** @param {string} text */
export const plain = (text) => blocks(marked.lexer(text)).trim();

/** @param {any[]} tokens */
const blocks = (tokens) => tokens.map(block).filter(Boolean).join("\n\n");

/** @param {any} token @returns {string} */
function block(token) {
  switch (token.type) {
    case "space":
    case "def":
    case "hr":
      return "";
    case "code":
    case "html":
      return token.text;
    case "list":
      return token.items.map((/** @type {any} */ item, /** @type {number} */ at) => listed(item, token.ordered ? `${Number(token.start) + at}. ` : "- ")).join("\n");
    case "blockquote":
      return blocks(token.tokens);
    case "table":
      return [token.header, ...token.rows].map((row) => row.map((/** @type {any} */ cell) => inline(cell.tokens)).join("\t")).join("\n");
    default:
      return token.tokens ? inline(token.tokens) : (token.text ?? "");
  }
}

/** Formats a list item, and indents all lines but the first. @param {any} item @param {string} mark */
function listed(item, mark) {
  const box = item.task ? (item.checked ? "[x] " : "[ ] ") : "";
  const inside = item.tokens.map(block).filter(Boolean).join(item.loose ? "\n\n" : "\n");
  return mark + box + inside.replace(/\n(?=[^\n])/g, `\n${" ".repeat(mark.length)}`);
}

/** @param {any[]} tokens @returns {string} */
const inline = (tokens) =>
  tokens
    .map((token) => {
      switch (token.type) {
        case "br":
          return "\n";
        case "link":
        case "image": {
          const words = token.tokens ? inline(token.tokens) : token.text;
          return words === token.href || !words ? token.href : `${words} (${token.href})`;
        }
        case "codespan":
        case "escape":
        case "html":
          return token.text;
        default:
          return token.tokens ? inline(token.tokens) : token.text;
      }
    })
    .join("");
