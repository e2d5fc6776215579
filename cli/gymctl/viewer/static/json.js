// JSON as text: laid out and coloured without parsing it, so that numbers stay as they were written.

import { h } from "./dom.js";

const COLOURED_LENGTH = 100_000;
const DEEPEST_INDENT = 30;
const SHORT_LENGTH = 76;

// Yields [kind, start, end]; anything that is no JSON comes as kind "other".
function* tokens(text) {
  let at = 0;
  while (at < text.length) {
    const start = at;
    const mark = text[at];
    if (mark === '"') {
      at = endOfString(text, at);
      yield ["string", start, at];
    } else if ("{}[],:".includes(mark)) {
      at += 1;
      yield [mark, start, at];
    } else if (" \t\n\r".includes(mark)) {
      at += 1;
    } else {
      while (at < text.length && !' \t\n\r"{}[],:'.includes(text[at])) at += 1;
      yield [/^-?\d/.test(mark + (text[start + 1] ?? "")) ? "number" : "other", start, at];
    }
  }
}

function endOfString(text, start) {
  let at = start;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
}

// The text with one member per line; what fits on a line stays on one.
export function layOut(text) {
  const all = [...tokens(text)];
  const short = shortOnes(all);
  const parts = [];
  let depth = 0;
  let inline = 0;
  const newLine = () => parts.push("\n" + "  ".repeat(Math.min(depth, DEEPEST_INDENT)));
  all.forEach(([kind, start, end], at) => {
    const opens = kind === "{" || kind === "[";
    const closes = kind === "}" || kind === "]";
    if (closes && inline) inline -= 1;
    else if (closes) {
      depth = Math.max(0, depth - 1);
      newLine();
    }
    parts.push(text.slice(start, end));
    if (opens && (inline || short.has(at))) inline += 1;
    else if (opens) {
      depth += 1;
      newLine();
    }
    if (kind === ":" || (kind === "," && inline)) parts.push(" ");
    else if (kind === ",") newLine();
  });
  return parts.join("");
}

// The numbers of the opening tokens whose object or list is short.
function shortOnes(all) {
  const found = new Set();
  const open = [];
  let length = 0;
  all.forEach(([kind, start, end], at) => {
    length += end - start + (kind === ":" || kind === "," ? 1 : 0);
    if (kind === "{" || kind === "[") open.push([at, length]);
    else if ((kind === "}" || kind === "]") && open.length) {
      const [began, before] = open.pop();
      if (length - before < SHORT_LENGTH) found.add(began);
    }
  });
  return found;
}

// A block of JSON text, coloured unless it is long.
export function block(text, props = {}) {
  const laid = layOut(text);
  const element = h("pre", { class: "json", tabindex: "0", ...props });
  if (laid.length > COLOURED_LENGTH) {
    element.textContent = laid;
    return element;
  }
  const all = [...tokens(laid)];
  let at = 0;
  all.forEach(([kind, start, end], number) => {
    const name = kind === "string" && all[number + 1]?.[0] === ":" ? "key" : kind;
    if (name.length === 1) return;
    if (start > at) element.append(laid.slice(at, start));
    element.append(h("span", { class: `j-${name}` }, laid.slice(start, end)));
    at = end;
  });
  element.append(laid.slice(at));
  return element;
}

// JSON text if it is an object or a list, else null: a lone number or word reads better as text.
export function asStructure(text) {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return null;
  try {
    JSON.parse(trimmed);
    return trimmed;
  } catch {
    return null;
  }
}
