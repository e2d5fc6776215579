// Starts the page: reads the state from the URL, asks the server, shows the answers, and follows the files.

import { ApiError, askJson, isAborted } from "./api.js";
import * as filters from "./filters.js";
import { announce, byId, button, fill, h, refill } from "./dom.js";
import * as format from "./format.js";
import { help } from "./keys.js";
import { mark, PAGE, placeOf, showPager, showRows, showTasks } from "./list.js";
import * as overview from "./overview.js";
import { fetchRow, showProblem, showRow, TABS } from "./row.js";
import { filterParameters, go as goTo, hashOf, read } from "./state.js";

const POLL_READING_MS = 400;
const POLL_MS = 1500;
const REFRESH_READING_MS = 1500;
const OVERVIEW_SHARE = 8;

let state = read();
let server = null;
let page = null;
const nothing = { list: "", overview: "", row: "", fetched: "" };
let shownAs = { ...nothing };
let answer = null;
let refreshed = { at: 0, version: -1 };
let overviewDue = 0;
let searching = 0;

function go(changes, replace = false) {
  goTo(state, changes, replace);
}
go.step = step;
go.close = () => {
  const place = state.row;
  go({ row: null });
  byId("list").querySelector(`tr[data-place="${place}"] a`)?.focus();
};

// ---- showing

async function show(fresh = false) {
  document.body.classList.toggle("open", state.row !== null);
  document.body.dataset.view = state.view;
  document.body.dataset.kind = server.kind;
  filters.update(state, server);
  showViews();
  byId("row").hidden = state.row === null;
  await Promise.all([guarded(showList(fresh)), guarded(showOverview(fresh)), guarded(showOpenRow())]);
}

async function guarded(work) {
  try {
    await work;
  } catch (problem) {
    if (isAborted(problem)) return;
    if (!(problem instanceof ApiError)) throw problem;
    fill(byId("progress"), h("span", { class: "bad" }, problem.message));
  }
}

function listParameters() {
  const given = filterParameters(state);
  if (state.sort) given.set("sort", state.sort);
  if (state.desc) given.set("desc", "1");
  return given;
}

const listKey = () => `${state.view}?${listParameters()}&${state.start}`;

async function showList(fresh) {
  const key = listKey();
  if (key === shownAs.list && !fresh) {
    mark(state);
    return;
  }
  const given = listParameters();
  given.set("count", PAGE);
  // A link to a row shows the page that holds it.
  if (!page && state.row && !state.start) given.set("around", state.row);
  given.set("start", state.start);
  const found = await askJson("list", state.view, given);
  if (key !== listKey()) return; // somebody went on meanwhile
  const moved = key !== shownAs.list;
  shownAs.list = key;
  page = { ...found, view: state.view };
  if (found.start !== state.start) go({ start: found.start }, true);
  if (state.view === "tasks") showTasks(page, state, server, go);
  else showRows(page, state, server, go, (place) => hashOf({ ...state, row: place }));
  showPager(page, state, go, state.view === "tasks" || server.kind === "tasks" ? "task" : "rollout");
  mark(state);
  showPosition();
  if (moved) {
    if (!state.row) byId("list").scrollTop = 0;
    announce(`${format.count(page.total)} found`);
  }
  clearTimeout(searching);
  if (page.search && !page.search.done) searching = setTimeout(goOnSearching, POLL_READING_MS);
}

async function goOnSearching() {
  await guarded(showList(true));
  if (page.search?.done) await guarded(showOverview(true));
}

async function showOverview(fresh) {
  const key = String(filterParameters(state));
  if (state.row !== null) return;
  // It costs the more the more rows there are, so it is not asked for each time while they are read.
  if (key === shownAs.overview && (!fresh || (!server.done && Date.now() < overviewDue))) return;
  const began = Date.now();
  const found = await askJson("overview", "overview", filterParameters(state));
  if (key !== String(filterParameters(state))) return;
  shownAs.overview = key;
  overviewDue = Date.now() + OVERVIEW_SHARE * (Date.now() - began);
  overview.show(found, state, server, go);
}

function showViews() {
  const tab = (view, label) =>
    button(label, () => go({ view, sort: "", desc: false }), {
      "aria-current": state.view === view ? "page" : null,
      data: { key: view },
    });
  byId("views").hidden = server.kind === "tasks";
  refill(byId("views"), tab("rows", "Rollouts"), tab("tasks", "By task"));
}

async function showOpenRow() {
  if (state.row === null) {
    answer = null;
    shownAs.row = "";
    return;
  }
  const place = state.row;
  const key = `${server.generation}/${place}`;
  // A row that was still being written may be whole by now.
  if (answer === null || shownAs.fetched !== key || answer.facts.unfinished) {
    try {
      const found = await fetchRow(place);
      if (state.row !== place) return; // closed or left meanwhile
      answer = found;
    } catch (problem) {
      if (isAborted(problem) || !(problem instanceof ApiError)) throw problem;
      if (state.row !== place) return;
      // Perhaps the index has not come to it yet.
      answer = null;
      shownAs.row = "";
      showProblem(problem, go);
      return;
    }
    shownAs.fetched = key;
    announce(`Line ${format.count(answer.facts.line)}`);
  }
  const shown = `${key}/${state.tab}/${answer.facts.bytes}`;
  if (shown !== shownAs.row) showRow(answer, state, positionText(), go, server);
  shownAs.row = shown;
  showPosition();
}

function showPosition() {
  const place = byId("position");
  if (place) place.textContent = positionText() ?? "";
}

function positionText() {
  const at = page?.view === "rows" ? page.rows.findIndex((row) => placeOf(row) === state.row) : -1;
  return at < 0 ? null : `${format.count(page.start + at + 1)} of ${format.count(page.total)}`;
}

// ---- next and previous

async function step(by) {
  if (!page || page.view !== "rows" || !page.total) return;
  const at = page.rows.findIndex((row) => placeOf(row) === state.row);
  const next = state.row === null ? (by > 0 ? 0 : page.rows.length - 1) : at + by;
  if (state.row !== null && at < 0) return;
  if (next >= 0 && next < page.rows.length) {
    go({ row: placeOf(page.rows[next]) }, state.row !== null);
    return;
  }
  const start = page.start + by * PAGE;
  if (start < 0 || start >= page.total) {
    announce(by > 0 ? "This is the last row" : "This is the first row");
    return;
  }
  const given = listParameters();
  given.set("count", PAGE);
  given.set("start", start);
  await guarded(
    askJson("list", "rows", given).then((found) => {
      const row = by > 0 ? found.rows[0] : found.rows.at(-1);
      if (row) go({ start, row: placeOf(row) }, true);
    }),
  );
}

// ---- the server's state

async function poll() {
  try {
    const found = await askJson("state", "state");
    const first = server === null;
    const anew = !first && found.generation !== server.generation;
    server = found;
    showServer();
    if (anew) shownAs = { ...nothing };
    const changed = found.version !== refreshed.version;
    const due = Date.now() - refreshed.at > (found.done ? 0 : REFRESH_READING_MS);
    const bare = !page || (page.rows ?? page.tasks ?? []).length < Math.min(PAGE, found.rows);
    if (first || anew || (changed && byId("follow").checked && (due || bare))) {
      refreshed = { at: Date.now(), version: found.version };
      await show(true);
    } else if (changed) {
      showNews();
    }
  } catch (problem) {
    if (!isAborted(problem)) {
      if (!(problem instanceof ApiError)) throw problem;
      fill(byId("progress"), h("span", { class: "bad" }, problem.message));
    }
  } finally {
    schedule();
  }
}

function schedule() {
  setTimeout(
    () => (document.hidden ? schedule() : poll()),
    server && server.done ? POLL_MS : POLL_READING_MS,
  );
}

function showServer() {
  const names = server.files.map((file) => file.name);
  document.title = `${names[0] ?? "?"} · gymctl view`;
  byId("title").textContent = server.kind === "tasks" ? "Tasks" : "Rollouts";
  const size = server.files.reduce((sum, file) => sum + file.bytes, 0);
  const read = server.files.reduce((sum, file) => sum + file.indexed_bytes, 0);
  const malformed = server.files.reduce((sum, file) => sum + file.malformed, 0);
  fill(
    byId("files"),
    h("span", { class: "names", title: server.files.map((file) => file.path).join("\n") }, names.join(", ")),
    h("span", { class: "muted" }, ` ${format.plural(server.rows, "row")}, ${format.bytes(size)}`),
    malformed > 0 &&
      button(
        `${format.plural(malformed, "unreadable line")}`,
        () => go({ view: "rows", has: ["malformed"] }),
        { class: "link bad" },
      ),
  );
  const problem = server.files.map((file) => file.problem).find(Boolean);
  const share = size ? read / size : 1;
  fill(
    byId("progress"),
    problem && h("span", { class: "bad" }, problem),
    !server.done && [
      h("progress", { max: "1", value: String(share), "aria-label": "Reading the files" }),
      ` reading ${Math.floor(100 * share)}%`,
    ],
  );
}

// Somebody does not want the list to move while they look: they get told instead.
function showNews() {
  if (byId("follow").checked) return;
  fill(
    byId("progress"),
    button(
      "Show new rows",
      () => {
        refreshed = { at: Date.now(), version: server.version };
        showServer();
        guarded(show(true));
      },
      { class: "small" },
    ),
  );
}

// ---- keys

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (state.row !== null) go.close();
    return;
  }
  if (typing) return;
  const tabs = [...document.querySelectorAll(".tabs [role=tab]")];
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    "/": () => byId("search").focus(),
    "?": help,
    f: () => byId("follow").click(),
    "[": () => page?.start > 0 && go({ start: page.start - PAGE }),
    "]": () => page && page.start + PAGE < page.total && go({ start: page.start + PAGE }),
  };
  const action =
    actions[event.key] ?? (/^[1-9]$/.test(event.key) ? () => tabs[Number(event.key) - 1]?.click() : null);
  if (!action) return;
  event.preventDefault();
  action();
}

// ---- start

filters.build(go);
addEventListener("hashchange", () => {
  state = read();
  if (!(state.tab in TABS)) state.tab = "conversation";
  if (server) show();
});
addEventListener("keydown", onKey);
byId("help").addEventListener("click", help);
byId("follow").addEventListener("change", () => server && byId("follow").checked && show(true));
poll();
