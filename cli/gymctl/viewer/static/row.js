// One row: its facts, and what it holds in tabs.

import { ApiError, ask, askJson } from "./api.js";
import { byId, button, copy, copyButton, fill, h, refill } from "./dom.js";
import * as format from "./format.js";
import { conversation, jsonBlock, tokenRecord, values } from "./items.js";
import { block } from "./json.js";
import { agentCell, rewardPill } from "./list.js";
import { outcomeClass } from "./overview.js";
import { rewardNodes } from "./verdict.js";

export const TABS = { conversation: "Conversation", reward: "Reward", run: "Run", task: "Task", raw: "Raw" };
const RAW_BYTES = 2_000_000;

// What gymd and NeMo Gym write themselves; the other members are the task's or the verifier's.
const OWN = [
  "responses_create_params",
  "agent_ref",
  "response",
  "reward",
  "reward_components",
  "rollout",
  "failure",
];

export function showRow(answer, state, position, go, server) {
  const { facts, content } = answer;
  const place = byId("row");
  const tabs = tabsOf(facts, content, server);
  const tab = tabs.includes(state.tab) ? state.tab : tabs[0];
  const panel = h("div", {
    id: "panel",
    class: "panel",
    role: "tabpanel",
    "aria-labelledby": `tab-${tab}`,
    tabindex: "0",
  });
  refill(place, head(facts, content, state, position, go, server), tabBar(tabs, tab, go), panel);
  place.hidden = false;
  const row = content.row;
  if (tab === "raw") showRaw(panel, facts, row ? null : unreadable(content, facts));
  else if (tab === "conversation") fill(panel, failureBanner(row), conversationNodes(row));
  else if (tab === "reward") fill(panel, rewardNodes(row, extrasOf(row)));
  else if (tab === "run") fill(panel, runNodes(row, facts));
  else fill(panel, taskNodes(row));
}

export function showProblem(problem, go) {
  const place = byId("row");
  place.hidden = false;
  fill(
    place,
    h("header", { class: "row-head" }, h("h2", {}, "Row"), closer(go)),
    h("p", { class: "notice bad" }, problem.message),
  );
}

function tabsOf(facts, content, server) {
  if (!content.row) return ["raw"];
  if (server.kind === "tasks") return ["conversation", "task", "raw"];
  return Object.keys(TABS);
}

// ---- the head

function head(facts, content, state, position, go, server) {
  const row = content.row ?? {};
  const where = server.files.length > 1 ? ` of ${server.files[facts.file]?.name ?? ""}` : "";
  const link = button("Copy link", () => copy(location.href, link), { class: "small" });
  return h(
    "header",
    { class: "row-head" },
    h(
      "div",
      { class: "row-title" },
      h("h2", {}, `Line ${format.count(facts.line)}`, h("span", { class: "muted" }, where)),
      h("span", { class: "spacer" }),
      button("‹", () => go.step(-1), {
        class: "icon",
        "aria-label": "Previous row",
        title: "Previous row (k)",
        data: { key: "previous" },
      }),
      h("span", { class: "muted", id: "position" }, position),
      button("›", () => go.step(1), {
        class: "icon",
        "aria-label": "Next row",
        title: "Next row (j)",
        data: { key: "next" },
      }),
      link,
      closer(go),
    ),
    h("div", { class: "row-facts" }, factNodes(facts, row, go, server)),
  );
}

const closer = (go) =>
  button("×", () => go.close(), { class: "icon", "aria-label": "Close the row", title: "Close (Esc)" });

function factNodes(facts, row, go, server) {
  const nodes = [];
  if (facts.reward !== null) nodes.push(h("span", {}, "reward ", rewardPill(facts.reward)));
  if (facts.outcome)
    nodes.push(h("span", { class: `state ${outcomeClass(facts.outcome)}` }, format.words(facts.outcome)));
  const reason = row.rollout?.termination_reason;
  if (typeof reason === "string" && reason && reason !== "final_message" && reason !== "error")
    nodes.push(format.words(reason));
  if (facts.agent) nodes.push(agentCell(facts.agent));
  const isRollout = server.kind !== "tasks";
  if (facts.task_key !== "0" && isRollout) {
    const name = facts.task_index === null ? "task" : `task ${facts.task_index}`;
    nodes.push(
      button(name, () => go({ view: "rows", task: facts.task_key, agent: facts.agent || null }), {
        class: "link",
        title: "Show all rollouts of this task",
      }),
    );
  }
  if (facts.rollout_index !== null) nodes.push(`rollout ${facts.rollout_index}`);
  if (facts.turns !== null) nodes.push(format.plural(facts.turns, isRollout ? "turn" : "message"));
  if (facts.tool_calls) nodes.push(format.plural(facts.tool_calls, "call"));
  if (facts.output_tokens !== null)
    nodes.push(h("span", { title: "read and written" }, `${tokenCounts(facts)} tokens`));
  if (facts.seconds !== null) nodes.push(format.seconds(facts.seconds));
  return nodes.map((node) => h("span", { class: "fact" }, node));
}

const tokenCounts = (facts) => `${format.short(facts.input_tokens)} + ${format.short(facts.output_tokens)}`;

function tabBar(tabs, chosen, go) {
  const made = tabs.map((tab) =>
    button(TABS[tab], () => go({ tab }, true), {
      role: "tab",
      id: `tab-${tab}`,
      "aria-selected": String(tab === chosen),
      "aria-controls": "panel",
      tabindex: tab === chosen ? "0" : "-1",
      data: { key: tab },
    }),
  );
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the row" }, made);
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(chosen) + step + tabs.length) % tabs.length];
    go({ tab: next }, true);
    requestAnimationFrame(() => byId(`tab-${next}`)?.focus());
  });
  return bar;
}

// ---- conversation

function conversationNodes(row) {
  const params = row.responses_create_params ?? {};
  const asked = itemsOf(params.input);
  if (params.instructions) asked.unshift({ role: "system", content: params.instructions });
  const answered = row.response ? itemsOf(row.response.output) : [];
  const nodes = conversation(asked);
  if (row.response) nodes.push(h("h3", { class: "divider" }, "Rollout"), ...conversation(answered));
  if (!answered.length && row.response)
    nodes.push(h("p", { class: "notice" }, "The policy answered nothing."));
  if (!nodes.length)
    nodes.push(
      h("p", { class: "notice" }, "No conversation in this row. See Task or Raw for what it holds."),
    );
  return nodes;
}

function itemsOf(value) {
  if (typeof value === "string") return [{ role: "user", content: value }];
  return Array.isArray(value) ? [...value] : [];
}

const STAGES = {
  queue: " while waiting for a place",
  seed: " while the session was seeded",
  model: " in a model call",
  tool: " in a tool call",
  verify: " in the verifier",
  transport: " between processes",
  agent: " in the agent",
};

function failureBanner(row) {
  const failure = row.failure;
  if (!failure) return null;
  const text = typeof failure === "object" ? (failure.message ?? failure.reason ?? "failed") : failure;
  const stage = STAGES[failure.stage] ?? "";
  return h(
    "div",
    { class: "banner" },
    h("strong", {}, `Failed${stage}: `),
    String(text),
    failure.reason && h("code", {}, String(failure.reason)),
  );
}

function unreadable(content, facts) {
  const what = facts.unfinished ? "The line is still being written, or was cut off" : "The line is no row";
  return h("div", { class: "banner" }, h("strong", {}, `${what}: `), content.problem);
}

// ---- run

function runNodes(row, facts) {
  const run = row.rollout ?? {};
  const response = row.response ?? {};
  const records = itemsOf(response.output).map(tokenRecord).filter(Boolean);
  const section = (title, ...nodes) => h("section", { class: "part" }, h("h3", {}, title), nodes);
  const rest = Object.entries(run).filter(
    ([key, value]) => key !== "timing" && key !== "reward_extras" && typeof value !== "object",
  );
  return [
    run.timing && section("Timing", timing(run.timing)),
    row.failure && section("Failure", values(Object.entries(row.failure))),
    response.usage && section("Usage", usage(response.usage)),
    records.length > 0 && section("Token record", tokens(records)),
    rest.length > 0 && section("Rollout", values(rest)),
    row.response &&
      section(
        "Response",
        values(Object.entries(response).filter(([key]) => !["output", "usage", "tools"].includes(key))),
      ),
    !row.rollout && !row.response && h("p", { class: "notice" }, "Nothing ran: the task was refused."),
    h("p", { class: "muted" }, `The line has ${format.bytes(facts.bytes)}.`),
  ];
}

function timing(known) {
  const parts = [
    ["wait", (Date.parse(known.start_time) - Date.parse(known.accept_time)) / 1000],
    ["seed", known.seed_seconds],
    ["model", known.model_seconds],
    ["tool", known.tool_seconds],
    ["verify", known.verify_seconds],
    ["total", known.seconds],
  ].filter(([, value]) => Number.isFinite(value));
  const most = Math.max(...parts.map(([, value]) => value), 1e-9);
  const bar = ([name, value]) =>
    h(
      "li",
      {},
      h("span", { class: "name" }, name),
      h("span", { class: `meter t-${name}`, vars: { "--size": Math.max(0, value) / most } }),
      h("span", { class: "value" }, format.seconds(Math.max(0, value))),
    );
  const times = ["accept_time", "start_time", "end_time"]
    .filter((key) => known[key])
    .map((key) => [format.words(key), known[key]]);
  return [h("ul", { class: "timing" }, parts.map(bar)), values(times)];
}

function usage(known) {
  const pairs = [];
  for (const [key, value] of Object.entries(known)) {
    if (value !== null && typeof value === "object") {
      for (const [inner, amount] of Object.entries(value))
        pairs.push([`${format.words(inner)}`, amount === null ? "unknown" : format.count(amount)]);
    } else {
      pairs.push([format.words(key), typeof value === "number" ? format.count(value) : value]);
    }
  }
  return values(pairs);
}

function tokens(records) {
  const cells = (record, at) =>
    [at + 1, record.prompt, record.sampled, record.logprobs].map((value) =>
      h("td", { class: "number" }, format.count(value)),
    );
  const heads = ["Call", "Prompt ids", "Sampled ids", "Logprobs", "Mean logprob"].map((name) =>
    h("th", { scope: "col", class: "number" }, name),
  );
  return h(
    "table",
    { class: "plain" },
    h("thead", {}, h("tr", {}, heads)),
    h(
      "tbody",
      {},
      records.map((record, at) =>
        h(
          "tr",
          {},
          cells(record, at),
          h("td", { class: "number" }, record.mean === null ? "–" : record.mean.toFixed(4)),
        ),
      ),
    ),
  );
}

// ---- task

// The verifier's outputs: named by gymd; in files of others, what looks like one.
function extrasOf(row) {
  const named = row.rollout?.reward_extras;
  if (Array.isArray(named)) return named.filter((key) => key in row);
  if (row.reward === undefined) return [];
  const like = /judge|verdict|extracted|evaluation|score|correct|accuracy|library_reward|passed|similarity/;
  return Object.keys(row).filter((key) => !OWN.includes(key) && like.test(key));
}

function taskNodes(row) {
  const params = row.responses_create_params ?? {};
  const extras = extrasOf(row);
  const settings = Object.entries(params).filter(
    ([key]) => !["input", "tools", "instructions"].includes(key),
  );
  const fields = Object.entries(row).filter(
    ([key]) => !extras.includes(key) && (key === "agent_ref" || !OWN.includes(key)),
  );
  const tools = Array.isArray(params.tools) ? params.tools : [];
  return [
    h(
      "section",
      { class: "part" },
      h("h3", {}, "Fields"),
      fields.length ? values(fields) : h("p", { class: "muted" }, "none"),
    ),
    settings.length > 0 && h("section", { class: "part" }, h("h3", {}, "Create params"), values(settings)),
    h("section", { class: "part" }, h("h3", {}, `Tools (${tools.length})`), tools.map(toolNode)),
  ];
}

function toolNode(tool) {
  if (tool === null || typeof tool !== "object") return jsonBlock(tool);
  const name = String(tool.name ?? tool.type ?? "tool");
  const { description, parameters, ...rest } = tool;
  return h(
    "details",
    { class: "tool-definition" },
    h(
      "summary",
      {},
      h("code", {}, name),
      h("span", { class: "glance" }, typeof description === "string" ? description : ""),
    ),
    h(
      "div",
      { class: "content" },
      typeof description === "string" && h("p", {}, description),
      parameters !== undefined && jsonBlock(parameters),
      jsonBlock(rest),
    ),
  );
}

// ---- raw

async function showRaw(panel, facts, banner) {
  const path = `rows/${facts.file}:${facts.line}/raw`;
  fill(panel, h("p", { class: "muted" }, "Reading …"));
  try {
    const response = await ask("raw", path, new URLSearchParams({ limit: RAW_BYTES }));
    const text = await response.text();
    const cut = facts.bytes > RAW_BYTES;
    const shown = h(
      "div",
      {},
      facts.unreadable || cut ? h("pre", { class: "json", tabindex: "0" }, text) : block(text),
    );
    fill(
      panel,
      banner,
      h(
        "div",
        { class: "raw-bar" },
        copyButton(text, "Copy JSON"),
        h("a", { class: "button small", href: `/api/${path}?download`, download: "" }, "Download"),
        h(
          "span",
          { class: "muted" },
          cut
            ? `the first ${format.bytes(RAW_BYTES)} of ${format.bytes(facts.bytes)}`
            : format.bytes(facts.bytes),
        ),
      ),
      shown,
    );
  } catch (problem) {
    if (problem instanceof ApiError) fill(panel, h("p", { class: "notice bad" }, problem.message));
    else if (problem.name !== "AbortError") throw problem;
  }
}

export const fetchRow = (place) => askJson("row", `rows/${place}`);
