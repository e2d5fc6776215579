// A conversation: the items of a Responses `input` and `output`, each call next to its result.

import { add, button, copyButton, h } from "./dom.js";
import * as format from "./format.js";
import { asStructure, block } from "./json.js";

const LONG_TEXT = 4000;
const LONG_SYSTEM_TEXT = 900;
const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/;

// Nodes for a list of items.
export function conversation(items) {
  const results = new Map();
  for (const item of items) {
    if (isResult(item) && item.call_id)
      results.set(item.call_id, [...(results.get(item.call_id) ?? []), item]);
  }
  const shown = new Set();
  const nodes = [];
  for (const item of items) {
    if (shown.has(item)) continue;
    const answers = isCall(item) ? (results.get(item.call_id) ?? []) : [];
    answers.forEach((answer) => shown.add(answer));
    nodes.push(...itemNodes(item, answers));
  }
  return nodes;
}

const kindOf = (item) => (typeof item.type === "string" ? item.type : item.role ? "message" : "unknown");
const isResult = (item) => kindOf(item).endsWith("_output");
const isCall = (item) => kindOf(item).endsWith("_call");

function itemNodes(item, answers) {
  if (item === null || typeof item !== "object") return [card("item", "other", [jsonBlock(item)])];
  const kind = kindOf(item);
  if (kind === "message" || item.role) return message(item);
  if (kind === "reasoning") return [reasoning(item)];
  if (isCall(item)) return [call(item, kind, answers)];
  if (isResult(item)) return [card(format.words(kind), "tool", [result(item)], item.call_id)];
  return [card(format.words(kind), "other", [jsonBlock(withoutTokens(item)), tokenLine(item)])];
}

function card(label, kind, content, note = "", tools = null) {
  return h(
    "section",
    { class: `item ${kind}` },
    h("header", {}, h("h3", {}, label), note && h("span", { class: "note" }, note), tools),
    h("div", { class: "content" }, content),
  );
}

// ---- messages

function message(item) {
  const role = typeof item.role === "string" ? item.role : "message";
  const nodes = [];
  // Chat-shaped items say their reasoning beside the content.
  if (typeof item.reasoning_content === "string") nodes.push(thought(item.reasoning_content));
  let parts = typeof item.content === "string" ? [{ type: "text", text: item.content }] : item.content;
  if (!Array.isArray(parts)) parts = parts === null || parts === undefined ? [] : [parts];
  const [first, ...others] = parts;
  const split = role === "assistant" && typeof first?.text === "string" ? splitThought(first.text) : null;
  if (split) {
    nodes.push(thought(split.thought, "in the text"));
    parts = [{ ...first, text: split.rest }, ...others];
  }
  const text = parts.map((part) => part?.text ?? "").join("\n");
  const content = parts.map((part) => partNode(part, role));
  if (!content.length) content.push(h("p", { class: "muted" }, "(no content)"));
  const note = item.status && item.status !== "completed" ? String(item.status) : "";
  nodes.push(card(role, roleClass(role), [content, tokenLine(item)], note, text && copyButton(text)));
  for (const tool of Array.isArray(item.tool_calls) ? item.tool_calls : []) {
    const named = tool?.function ?? {};
    nodes.push(call({ ...named, call_id: tool?.id }, "function_call", []));
  }
  return nodes;
}

const roleClass = (role) =>
  ({ system: "system", developer: "system", user: "user", assistant: "assistant", tool: "tool" })[role] ??
  "other";

// Models without a reasoning parser leave their thoughts in front of the answer.
function splitThought(text) {
  const start = text.trimStart();
  if (!start.startsWith("<think>")) return null;
  const end = start.indexOf("</think>");
  return end < 0 ? null : { thought: start.slice(7, end).trim(), rest: start.slice(end + 8).trimStart() };
}

function partNode(part, role) {
  if (typeof part === "string") return textNode(part, role);
  if (part === null || typeof part !== "object") return jsonBlock(part);
  if (part.type === "refusal")
    return h("div", { class: "refusal" }, h("strong", {}, "Refusal: "), String(part.refusal ?? ""));
  const image = imageOf(part);
  if (image !== null) return imageNode(image);
  if (typeof part.text === "string") {
    const notes =
      Array.isArray(part.annotations) && part.annotations.length ? jsonBlock(part.annotations) : null;
    return [textNode(part.text, role), notes];
  }
  return jsonBlock(part);
}

function textNode(text, role) {
  return longText(text, role === "system" || role === "developer" ? LONG_SYSTEM_TEXT : LONG_TEXT);
}

// Text as it is; a long one shows its beginning first.
export function longText(text, most = LONG_TEXT, name = "text") {
  if (text.length <= most * 1.2) return h("div", { class: name }, text || "(empty)");
  const box = h("div", { class: name }, text.slice(0, most) + " …");
  const more = button(
    `Show all ${format.count(text.length)} characters`,
    () => {
      box.textContent = text;
      more.remove();
    },
    { class: "link more" },
  );
  return [box, more];
}

function imageOf(part) {
  const url = part.image_url?.url ?? part.image_url;
  return typeof url === "string" ? url : null;
}

function imageNode(url) {
  // Nothing is fetched: what a row names elsewhere may watch who reads it.
  if (IMAGE.test(url)) return h("img", { src: url, alt: "Image in the message", class: "picture" });
  const kind = url.startsWith("data:") ? url.slice(0, 40) : url.slice(0, 300);
  return h("p", { class: "muted" }, `Image, not loaded: ${kind}`);
}

// ---- reasoning

function reasoning(item) {
  const texts = [...listOf(item.summary), ...listOf(item.content)]
    .map((part) => part?.text)
    .filter((text) => typeof text === "string");
  const note = item.encrypted_content ? "encrypted" : "";
  return thought(texts.join("\n\n"), note, tokenLine(item));
}

const listOf = (value) => (Array.isArray(value) ? value : []);

function thought(text, note = "", extra = null) {
  const size = text.trim() ? text.trim().split(/\s+/).length : 0;
  return h(
    "details",
    { class: "item reasoning" },
    h(
      "summary",
      {},
      h("h3", {}, "reasoning"),
      h(
        "span",
        { class: "note" },
        [size ? format.plural(size, "word") : "no text", note].filter(Boolean).join(", "),
      ),
      h("span", { class: "glance" }, text.slice(0, 160)),
    ),
    h("div", { class: "content" }, text ? longText(text) : null, extra, text && copyButton(text)),
  );
}

// ---- calls

function call(item, kind, answers) {
  const name = item.name ?? (kind === "function_call" ? "(no name)" : "");
  const failed = answers.some(isError) || item.status === "failed" || Boolean(item.error);
  const state =
    answers.length || item.output ? (failed ? "error" : "") : kind === "function_call" ? "no result" : "";
  return h(
    "section",
    { class: `item tool${failed ? " failed" : ""}` },
    h(
      "header",
      {},
      h("h3", {}, kind === "function_call" ? "call" : format.words(kind)),
      name !== "" && h("code", { class: "name" }, String(name)),
      state && h("span", { class: `note ${failed ? "bad" : ""}` }, state),
      typeof item.arguments === "string" && item.arguments && copyButton(item.arguments, "Copy arguments"),
    ),
    h(
      "div",
      { class: "content" },
      callInput(item, kind),
      answers.map((answer) => h("div", { class: "result" }, h("h4", {}, "result"), result(answer))),
      tokenLine(item),
    ),
  );
}

function callInput(item, kind) {
  if (kind === "function_call") return argumentsNode(item.arguments);
  if (kind === "custom_tool_call") return longText(String(item.input ?? ""), LONG_TEXT, "code");
  if (kind === "code_interpreter_call") {
    return [longText(String(item.code ?? ""), LONG_TEXT, "code"), item.outputs && jsonBlock(item.outputs)];
  }
  if (kind === "image_generation_call" && typeof item.result === "string") {
    return imageNode(`data:image/png;base64,${item.result}`);
  }
  if (kind === "mcp_call") {
    return [
      argumentsNode(item.arguments),
      item.output && textOrJson(String(item.output)),
      item.error && jsonBlock(item.error),
    ];
  }
  return jsonBlock(withoutTokens(item));
}

function argumentsNode(value) {
  if (typeof value !== "string") return value === undefined ? null : jsonBlock(value);
  if (value.trim() === "" || value.trim() === "{}") return h("p", { class: "muted" }, "no arguments");
  return asStructure(value)
    ? block(value)
    : [h("p", { class: "note bad" }, "not valid JSON"), longText(value, LONG_TEXT, "code")];
}

function result(item) {
  const output = item.output;
  if (typeof output === "string") return textOrJson(output);
  if (Array.isArray(output))
    return output.map((part) =>
      typeof part?.text === "string" && part.type !== "refusal"
        ? textOrJson(part.text)
        : partNode(part, "tool"),
    );
  return jsonBlock(output ?? null);
}

export function textOrJson(text) {
  return asStructure(text) ? block(text) : longText(text, LONG_TEXT, "code");
}

// Tools tell a model about a failure in an object with `error`.
function isError(item) {
  if (item.status === "failed" || item.status === "incomplete") return true;
  const text = typeof item.output === "string" ? asStructure(item.output) : null;
  return text !== null && text.startsWith("{") && Boolean(JSON.parse(text).error);
}

// ---- tokens

const TOKEN_KEYS = ["prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"];

const withoutTokens = (item) =>
  Object.fromEntries(Object.entries(item).filter(([key]) => !TOKEN_KEYS.includes(key)));

// The token record of one model call, which hangs on its last item.
export function tokenRecord(item) {
  if (!TOKEN_KEYS.some((key) => item?.[key])) return null;
  return {
    prompt: item.prompt_token_ids?.count ?? 0,
    sampled: item.generation_token_ids?.count ?? 0,
    logprobs: item.generation_log_probs?.count ?? 0,
    mean: item.generation_log_probs?.mean ?? null,
  };
}

function tokenLine(item) {
  const record = tokenRecord(item);
  if (!record) return null;
  const mean = record.mean === null ? "" : `, mean logprob ${record.mean.toFixed(3)}`;
  return h(
    "p",
    { class: "tokens" },
    `token record: prompt ${format.count(record.prompt)}, sampled ${format.count(record.sampled)}${mean}`,
  );
}

// ---- JSON

export function jsonBlock(value) {
  return block(JSON.stringify(value) ?? "null");
}

// Named values as a list: text as text, everything else as JSON.
export function values(pairs) {
  const list = h("dl", { class: "values" });
  for (const [name, value] of pairs) {
    const simple = value === null || typeof value === "number" || typeof value === "boolean";
    const inline = simple || (typeof value === "string" && value.length < 200 && !value.includes("\n"));
    const shown = simple
      ? String(value)
      : typeof value === "string"
        ? longText(value, LONG_TEXT, inline ? "text" : "code")
        : jsonBlock(value);
    add(list, [h("div", { class: inline ? "pair inline" : "pair" }, h("dt", {}, name), h("dd", {}, shown))]);
  }
  return list;
}
