// The filter bar, and the chips of what is filtered by.

import { byId, button, fill, h } from "./dom.js";
import { reward, words } from "./format.js";
import { isFiltered, NO_FILTERS } from "./state.js";

export const HAS = {
  calls: "tool calls",
  errors: "tool errors",
  reasoning: "reasoning",
  failure: "failure",
  unscored: "no reward",
  tokens: "token ids",
  tools: "tool definitions",
  images: "images",
  malformed: "unreadable line",
};
const OF_TASKS = ["tools", "calls", "images", "malformed"];
const TYPING_MS = 250;

let controls = null;

export function build(go) {
  let timer = 0;
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search the text of all rows",
    "aria-label": "Search the text of all rows",
    title: "Search the text of all rows (/)",
    maxlength: "500",
    on: {
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(() => go({ q: search.value.trim() }, true), TYPING_MS);
      },
    },
  });
  const select = (id, name) =>
    h("select", { id, "aria-label": name, on: { change: (event) => go(choice(id, event.target)) } });
  const number = (id, name) =>
    h("input", {
      type: "number",
      step: "any",
      id,
      placeholder: name,
      "aria-label": `${name} reward`,
      on: { change: (event) => go({ [id]: event.target.value }) },
    });
  const menu = h("details", { class: "menu" });
  controls = {
    search,
    agent: select("agent", "Agent"),
    outcome: select("outcome", "Outcome"),
    file: select("file", "File"),
    min: number("min", "Least"),
    max: number("max", "Most"),
    menu,
    go,
    known: "",
  };
  const range = h(
    "fieldset",
    { class: "range", id: "range" },
    h("legend", { class: "quiet" }, "Reward"),
    h("span", { "aria-hidden": "true" }, "Reward"),
    controls.min,
    h("span", { "aria-hidden": "true" }, "to"),
    controls.max,
  );
  const form = byId("filters");
  fill(form, search, controls.agent, controls.outcome, controls.file, range, menu);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    go({ q: search.value.trim() });
  });
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// The first option is "any"; the others have the name as their value, the empty one too.
const choice = (id, element) => ({ [id]: element.selectedIndex === 0 ? null : element.value });

export function update(state, server) {
  const { search, min, max } = controls;
  if (document.activeElement !== search || !state.q) search.value = state.q;
  if (document.activeElement !== min) min.value = state.min;
  if (document.activeElement !== max) max.value = state.max;
  const files = server.files.map((file, number) => [String(number), file.name]);
  const named = (names) => names.map((name) => [name, words(name) || "(none)"]);
  options(
    controls.agent,
    "Any agent",
    server.agents.map((name) => [name, name || "(no agent)"]),
    state.agent,
  );
  options(controls.outcome, "Any outcome", named(server.outcomes), state.outcome);
  options(controls.file, "Any file", files, state.file);
  controls.agent.hidden = server.agents.length < 2 && state.agent === null;
  controls.outcome.hidden = !server.outcomes.some(Boolean) && state.outcome === null;
  controls.file.hidden = files.length < 2;
  byId("range").hidden = server.kind === "tasks";
  updateMenu(state, server);
  updateChips(state, server);
}

function options(element, any, pairs, chosen) {
  const known = JSON.stringify(pairs);
  if (element.dataset.known !== known) {
    fill(
      element,
      h("option", {}, any),
      pairs.map(([value, label]) => h("option", { value }, label)),
    );
    element.dataset.known = known;
  }
  const at = pairs.findIndex(([value]) => value === chosen);
  element.selectedIndex = at + 1;
}

function updateMenu(state, server) {
  const names = server.kind === "tasks" ? OF_TASKS : Object.keys(HAS);
  if (controls.known !== server.kind) {
    controls.known = server.kind;
    const box = (name) =>
      h(
        "label",
        {},
        h("input", { type: "checkbox", value: name, on: { change: () => controls.go({ has: chosen() }) } }),
        HAS[name],
      );
    fill(controls.menu, h("summary", {}, "Has …"), h("div", { class: "sheet" }, names.map(box)));
  }
  for (const box of controls.menu.querySelectorAll("input")) box.checked = state.has.includes(box.value);
}

const chosen = () => [...controls.menu.querySelectorAll("input:checked")].map((box) => box.value);

function updateChips(state, server) {
  const chips = [];
  const chip = (label, changes) =>
    chips.push(
      button([label, h("span", { "aria-hidden": "true" }, " ×")], () => controls.go(changes), {
        class: "chip",
        "aria-label": `Remove the filter: ${label}`,
      }),
    );
  if (state.q) chip(`text “${state.q}”`, { q: "" });
  if (state.agent !== null) chip(`agent ${state.agent || "(none)"}`, { agent: null });
  if (state.outcome !== null) chip(`outcome ${words(state.outcome) || "(none)"}`, { outcome: null });
  if (state.file !== null)
    chip(`file ${server.files[Number(state.file)]?.name ?? state.file}`, { file: null });
  if (state.task !== null) chip("one task", { task: null });
  if (state.min !== "" || state.max !== "") chip(rangeLabel(state), { min: "", max: "" });
  for (const name of state.has) chip(HAS[name] ?? name, { has: state.has.filter((other) => other !== name) });
  const bar = byId("chips");
  bar.hidden = !isFiltered(state);
  fill(
    bar,
    chips,
    button("Clear all", () => controls.go(NO_FILTERS), { class: "link" }),
  );
}

function rangeLabel({ min, max }) {
  if (min !== "" && min === max) return `reward ${reward(Number(min))}`;
  if (min === "") return `reward at most ${reward(Number(max))}`;
  if (max === "") return `reward at least ${reward(Number(min))}`;
  return `reward ${reward(Number(min))} to ${reward(Number(max))}`;
}
