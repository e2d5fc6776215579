// Figures, the histogram of rewards, outcomes, pass@k.

import { byId, button, h, refill } from "./dom.js";
import * as format from "./format.js";

export function show(overview, state, server, go) {
  const place = byId("overview");
  place.hidden = server.kind === "tasks" || overview.rows + overview.histogram.length === 0;
  if (place.hidden) return;
  refill(
    place,
    figures(overview),
    overview.histogram.length > 0 && histogram(overview.histogram, state, go),
    overview.outcomes.some((one) => one.name) && outcomes(overview, state, go),
    overview.pass.length > 0 && passes(overview.pass, go),
  );
}

function figures(overview) {
  const figure = (name, value, title) => h("div", { title }, h("dt", {}, name), h("dd", {}, value));
  return h(
    "dl",
    { class: "figures" },
    figure("mean reward", format.ratio(overview.mean), "Over the scored rollouts"),
    figure("scored", `${format.short(overview.scored)} of ${format.short(overview.rows)}`),
    figure("median time", format.seconds(overview.median_seconds)),
    figure("output tokens", format.short(overview.output_tokens)),
  );
}

function histogram(bars, state, go) {
  const most = Math.max(...bars.map((bar) => bar.count), 1);
  const chosen = (bar) => state.min !== "" && Number(state.min) === bar.min && Number(state.max) === bar.max;
  const any = bars.some(chosen);
  const discrete = bars.every((bar) => bar.low === bar.high);
  const made = bars.map((bar, at) => {
    const range = discrete
      ? format.reward(bar.low)
      : `${format.reward(bar.low)} to ${format.reward(bar.high)}`;
    const pressed = chosen(bar);
    const label = `${format.plural(bar.count, "rollout")} with reward ${range}`;
    const choose = () => go(pressed ? { min: "", max: "" } : { min: String(bar.min), max: String(bar.max) });
    const edge = discrete || at === 0 || at === bars.length - 1 || at === bars.length / 2;
    const shown = discrete || at < bars.length - 1 ? bar.low : bar.high;
    return button(
      [
        h("span", { class: "bar-count" }, discrete ? format.short(bar.count) : ""),
        h("span", { class: "bar", vars: { "--size": bar.count / most, "--reward": tone(bar.low) } }),
        h("span", { class: "bar-label" }, edge ? format.reward(shown) : ""),
      ],
      choose,
      {
        class: any && !pressed ? "column faded" : "column",
        "aria-pressed": String(pressed),
        "aria-label": label,
        title: label,
        disabled: bar.count === 0,
        data: { key: `bar${at}` },
      },
    );
  });
  return h(
    "div",
    {
      class: discrete ? "histogram discrete" : "histogram",
      role: "group",
      "aria-label": "Histogram of rewards",
    },
    made,
  );
}

// From 0 (red) to 1 (green).
export const tone = (value) => String(Math.max(0, Math.min(1, value)));

function outcomes(overview, state, go) {
  const most = overview.outcomes[0].count;
  const line = ({ name, count }) =>
    h(
      "li",
      {},
      button(
        [
          h("span", { class: "name" }, format.words(name) || "(none)"),
          h("span", { class: "count" }, format.short(count)),
          h("span", { class: `meter ${outcomeClass(name)}`, vars: { "--size": count / most } }),
        ],
        () => go({ outcome: state.outcome === name ? null : name }),
        { "aria-pressed": String(state.outcome === name), data: { key: `outcome-${name}` } },
      ),
    );
  return h("ul", { class: "outcomes", "aria-label": "Outcomes" }, overview.outcomes.slice(0, 5).map(line));
}

export function outcomeClass(name) {
  if (!name) return "none";
  if (name === "completed") return "good";
  return /^(truncated|partial|empty|stale|cancelled)/.test(name) ? "fair" : "bad";
}

function passes(table, go) {
  const figure = ({ k, value, tasks }) =>
    h(
      "li",
      { title: `Over ${format.plural(tasks, "task")} with at least ${format.plural(k, "scored rollout")}` },
      h("span", { class: "name" }, `pass@${k}`),
      h("span", { class: "value" }, format.ratio(value)),
      h("span", { class: "meter accent", vars: { "--size": Math.max(0, Math.min(1, value)) } }),
      h("span", { class: "of" }, format.plural(tasks, "task")),
    );
  return h(
    "div",
    { class: "passes" },
    h("ul", { "aria-label": "pass@k" }, table.slice(0, 5).map(figure)),
    button("By task", () => go({ view: "tasks", sort: "", desc: false }), { class: "link" }),
  );
}
