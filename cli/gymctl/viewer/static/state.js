// What is shown, kept in the URL's hash so that every view has a link.

export const DEFAULTS = {
  view: "rows",
  q: "",
  agent: null,
  outcome: null,
  file: null,
  task: null,
  min: "",
  max: "",
  has: [],
  sort: "",
  desc: false,
  start: 0,
  row: null,
  tab: "conversation",
};

const FILTERS = ["q", "agent", "outcome", "file", "task", "min", "max", "has"];

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const text = (name) => (given.has(name) ? given.get(name) : DEFAULTS[name]);
  return {
    ...DEFAULTS,
    view: given.get("view") === "tasks" ? "tasks" : "rows",
    q: text("q"),
    agent: text("agent"),
    outcome: text("outcome"),
    file: text("file"),
    task: text("task"),
    min: text("min"),
    max: text("max"),
    has: (given.get("has") ?? "").split(",").filter(Boolean),
    sort: text("sort"),
    desc: given.get("desc") === "1",
    start: Math.max(0, Number.parseInt(given.get("start") ?? "0", 10) || 0),
    row: /^\d+:\d+$/.test(given.get("row") ?? "") ? given.get("row") : null,
    tab: text("tab"),
  };
}

export function hashOf(state) {
  const given = new URLSearchParams();
  for (const [name, standard] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if (Array.isArray(value)) {
      if (value.length) given.set(name, value.join(","));
    } else if (value !== standard) {
      given.set(name, value === true ? "1" : String(value));
    }
  }
  return `#${given}`;
}

// Goes to another state; `replace` leaves no entry in the history.
export function go(state, changes, replace = false) {
  const next = { ...state, ...changes };
  const filtered =
    FILTERS.some((name) => name in changes) || "sort" in changes || "desc" in changes || "view" in changes;
  if (filtered && !("start" in changes)) next.start = 0;
  const hash = hashOf(next);
  if (hash === (location.hash || "#")) return;
  history[replace ? "replaceState" : "pushState"](null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

// The filters as the API wants them.
export function filterParameters(state) {
  const given = new URLSearchParams();
  for (const name of FILTERS) {
    const value = state[name];
    if (name === "has") {
      if (value.length) given.set("has", value.join(","));
    } else if (value !== DEFAULTS[name]) {
      given.set(name, value);
    }
  }
  return given;
}

export const isFiltered = (state) => [...filterParameters(state)].length > 0;

export const NO_FILTERS = Object.fromEntries(FILTERS.map((name) => [name, DEFAULTS[name]]));
