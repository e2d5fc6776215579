// The list of rows, its pages, and the table of tasks.

import { add, byId, button, h, refill } from "./dom.js";
import * as format from "./format.js";
import { outcomeClass, tone } from "./overview.js";

export const PAGE = 100;

const ROLLOUT_COLUMNS = [
  { key: "line", label: "Line", sort: "line", kind: "number" },
  { key: "reward", label: "Reward", sort: "reward", kind: "number" },
  { key: "text", label: "Task and answer" },
  { key: "outcome", label: "Outcome", wide: true },
  { key: "agent", label: "Agent", wide: true },
  { key: "turns", label: "Turns", sort: "turns", kind: "number", wide: true },
  { key: "calls", label: "Calls", sort: "calls", kind: "number", wide: true },
  { key: "tokens", label: "Tokens", sort: "tokens", kind: "number", wide: true },
  { key: "time", label: "Time", sort: "duration", kind: "number", wide: true },
];

const TASK_ROW_COLUMNS = [
  { key: "line", label: "Line", sort: "line", kind: "number" },
  { key: "text", label: "Task" },
  { key: "agent", label: "Agent", wide: true },
  { key: "turns", label: "Messages", sort: "turns", kind: "number", wide: true },
  { key: "tools", label: "Tools", sort: "tools", kind: "number", wide: true },
  { key: "size", label: "Size", sort: "size", kind: "number", wide: true },
];

export const placeOf = (row) => `${row.file}:${row.line}`;

export function showRows(page, state, server, go, linkTo) {
  const columns = server.kind === "tasks" ? TASK_ROW_COLUMNS : ROLLOUT_COLUMNS;
  const labels = fileLabels(server.files);
  const body = page.rows.map((row) => {
    const place = placeOf(row);
    const cells = columns.map((column) =>
      h("td", { class: classOf(column) }, rowCell(column.key, row, labels[row.file], linkTo(place))),
    );
    const open = (event) => {
      if (isOther(event)) return;
      event.preventDefault(); // the link's own address is that of the view in which it was made
      go({ row: place });
    };
    return h("tr", { data: { place }, on: { click: open } }, cells);
  });
  table(columns, body, state, go, "rows");
  if (!page.rows.length) empty(page, server);
}

// A click that means something else: another tab of the browser, a button, or the end of choosing text.
const isOther = (event) =>
  event.ctrlKey ||
  event.metaKey ||
  event.shiftKey ||
  event.target.closest("button") ||
  String(getSelection());

function rowCell(key, row, label, link) {
  switch (key) {
    case "line":
      return [
        h("a", { href: link, class: "line", data: { key: link } }, format.count(row.line)),
        label && h("span", { class: "sub" }, label),
      ];
    case "reward":
      return rewardPill(row.reward);
    case "text":
      return [
        h("span", { class: "first" }, row.task ?? (row.unreadable ? "" : "(no task)")),
        row.problem
          ? h("span", { class: "sub bad" }, row.unfinished ? `not finished: ${row.problem}` : row.problem)
          : row.has_response && h("span", { class: "sub" }, row.answer ?? "(no answer)"),
      ];
    case "outcome":
      if (row.unreadable)
        return h("span", { class: "state bad" }, row.unfinished ? "unfinished" : "unreadable");
      return row.outcome
        ? h("span", { class: `state ${outcomeClass(row.outcome)}` }, format.words(row.outcome))
        : "–";
    case "agent":
      return agentCell(row.agent);
    case "turns":
      return format.count(row.turns);
    case "calls":
      return [
        row.tool_calls ? format.count(row.tool_calls) : "–",
        row.tool_errors > 0 && h("span", { class: "sub bad" }, format.plural(row.tool_errors, "error")),
      ];
    case "tokens":
      return row.output_tokens === null && row.input_tokens === null
        ? "–"
        : h(
            "span",
            { title: "read and written" },
            `${format.short(row.input_tokens)} + ${format.short(row.output_tokens)}`,
          );
    case "time":
      return format.seconds(row.seconds);
    case "tools":
      return row.tools ? format.count(row.tools) : "–";
    default:
      return format.bytes(row.bytes);
  }
}

// Nearly all names end alike.
export const agentCell = (name) =>
  h("span", { class: "agent", title: name }, name.replace(/_simple_agent$/, "") || "–");

export function rewardPill(value) {
  if (value === null || value === undefined) return h("span", { class: "pill none" }, "–");
  return h("span", { class: "pill", vars: { "--reward": tone(value) } }, format.reward(value));
}

// What tells the files apart: "failures" beside "rollouts.jsonl".
export function fileLabels(files) {
  if (files.length < 2) return files.map(() => "");
  const stems = files.map((file) => file.name.replace(/\.jsonl$/, ""));
  let common = 0;
  while (stems.every((stem) => stem[common] !== undefined && stem[common] === stems[0][common])) common += 1;
  return stems.map((stem) => stem.slice(common).replace(/^[-_.]+/, ""));
}

function empty(page, server) {
  const reading = !server.done || (page.search && !page.search.done);
  const rows = server.rows > 0;
  const text = reading ? "Reading …" : rows ? "No row matches these filters." : "The file has no rows yet.";
  add(byId("list"), [h("p", { class: "notice" }, text)]);
}

// ---- tasks

const PASS_MOST = 16;

export function showTasks(page, state, server, go) {
  const ks = [...new Set(page.tasks.flatMap((task) => Object.keys(task.pass)))]
    .map(Number)
    .sort((a, b) => a - b);
  const shown = ks.filter((k) => k <= PASS_MOST);
  const columns = [
    { key: "task", label: "Task", sort: "task" },
    { key: "agent", label: "Agent", wide: true },
    { key: "rollouts", label: "Rollouts", sort: "rollouts", kind: "number" },
    { key: "mean", label: "Mean", sort: "mean", kind: "number" },
    { key: "std", label: "Std", sort: "std", kind: "number", wide: true },
    ...shown.map((k) => ({ key: k, label: `pass@${k}`, kind: "number", wide: k !== shown.at(-1) })),
    { key: "rewards", label: "Rewards", wide: true },
  ];
  const body = page.tasks.map((task) => {
    const choose = () => go({ view: "rows", task: task.task_key, agent: task.agent, sort: "", desc: false });
    const cells = columns.map((column) =>
      h("td", { class: classOf(column) }, taskCell(column.key, task, choose)),
    );
    return h("tr", { on: { click: (event) => isOther(event) || choose() } }, cells);
  });
  table(columns, body, state, go, "tasks");
  if (!page.tasks.length) add(byId("list"), [h("p", { class: "notice" }, "No task with these filters.")]);
}

function taskCell(key, task, choose) {
  switch (key) {
    case "task":
      return [
        h(
          "span",
          { class: "first" },
          button(
            task.task_index === null ? `line ${format.count(task.line)}` : `#${task.task_index}`,
            choose,
            {
              class: "link",
              "aria-label": "Show the rollouts of this task",
            },
          ),
          ` ${task.task_text}`,
        ),
      ];
    case "agent":
      return agentCell(task.agent);
    case "rollouts":
      return task.scored === task.rollouts
        ? format.count(task.rollouts)
        : `${task.scored} of ${task.rollouts}`;
    case "mean":
      return task.mean === null
        ? "–"
        : h("span", { class: "pill", vars: { "--reward": tone(task.mean) } }, format.ratio(task.mean));
    case "std":
      return format.ratio(task.std);
    case "rewards":
      return h(
        "span",
        {
          class: "strip",
          role: "img",
          "aria-label": `Rewards: ${task.rewards.map(format.reward).join(", ")}`,
        },
        task.rewards.map((value) =>
          h("i", { vars: { "--reward": tone(value) }, title: format.reward(value) }),
        ),
      );
    default:
      return format.ratio(task.pass[key]);
  }
}

// ---- both

const classOf = (column) =>
  [`c-${column.key}`, column.kind === "number" && "number", column.wide && "wide"].filter(Boolean).join(" ");

function table(columns, body, state, go, name) {
  const place = byId("list");
  const head = columns.map((column) => {
    const sorted = column.sort && (state.sort || (name === "rows" ? "line" : "task")) === column.sort;
    const direction = sorted ? (state.desc ? "descending" : "ascending") : "none";
    const arrow = sorted ? (state.desc ? " ↓" : " ↑") : "";
    return h(
      "th",
      { scope: "col", class: classOf(column), "aria-sort": column.sort && direction },
      column.sort
        ? button(
            [column.label, h("span", { "aria-hidden": "true" }, arrow)],
            () => go(nextSort(column.sort, sorted, state)),
            { data: { key: `sort-${column.sort}` } },
          )
        : column.label,
    );
  });
  refill(
    place,
    h(
      "table",
      { class: name, "aria-label": name === "rows" ? "Rows" : "Tasks" },
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, body),
    ),
  );
}

// Numbers are most telling from the top; another click turns it, a third one leaves it.
function nextSort(key, sorted, state) {
  const first = key !== "line" && key !== "task";
  if (!sorted) return { sort: key, desc: first };
  if (state.desc === first) return { sort: key, desc: !first };
  return { sort: "", desc: false };
}

// Marks the open row.
export function mark(state) {
  for (const row of byId("list").querySelectorAll("tr[data-place]")) {
    const current = row.dataset.place === state.row;
    row.classList.toggle("current", current);
    row.querySelector("a").setAttribute("aria-current", String(current));
    if (current) row.scrollIntoView({ block: "nearest" });
  }
}

export function showPager(page, state, go, word) {
  const last = Math.max(0, Math.floor((page.total - 1) / PAGE) * PAGE);
  const until = Math.min(page.start + PAGE, page.total);
  const turn = (label, start, name) =>
    button(label, () => go({ start }), {
      "aria-label": name,
      title: name,
      data: { key: name },
      disabled: start < 0 || start > last || start === page.start,
    });
  const searched = page.search;
  const looked =
    searched &&
    !searched.done &&
    `searched ${Math.floor((100 * searched.scanned_bytes) / Math.max(searched.bytes, 1))}% …`;
  refill(
    byId("pager"),
    h(
      "span",
      { class: "shown" },
      page.total
        ? `${format.count(page.start + 1)}–${format.count(until)} of ${format.plural(page.total, word)}`
        : `no ${word}s`,
    ),
    looked && h("span", { class: "busy" }, looked),
    searched?.problem && h("span", { class: "bad" }, searched.problem),
    h(
      "span",
      { class: "turns" },
      turn("«", 0, "First page"),
      turn("‹", page.start - PAGE, "Previous page"),
      turn("›", page.start + PAGE, "Next page"),
      turn("»", last, "Last page"),
    ),
  );
}
