// The reward: its value, its components, what the verifier noted, and what judges said.

import { copyButton, h } from "./dom.js";
import * as format from "./format.js";
import { conversation, jsonBlock, longText, values } from "./items.js";
import { rewardPill } from "./list.js";
import { tone } from "./overview.js";

export function rewardNodes(row, extras) {
  const components = row.reward_components;
  const judged = extras.filter((key) => isJudgement(row[key]));
  const others = extras.filter((key) => !judged.includes(key));
  const section = (title, ...nodes) => h("section", { class: "part" }, h("h3", {}, title), nodes);
  return [
    h(
      "div",
      { class: "score" },
      typeof row.reward === "number" ? rewardPill(row.reward) : h("span", { class: "muted" }, unscored(row)),
    ),
    components && typeof components === "object" && section("Components", componentList(components)),
    judged.map((key) => section(format.words(key), list(row[key]).map(judgement))),
    others.length > 0 && section("The verifier's notes", values(others.map((key) => [key, row[key]]))),
    row.failure &&
      !("reward" in row) &&
      section(
        "Why there is none",
        values(Object.entries(row.failure).filter(([key]) => ["message", "reason", "stage"].includes(key))),
      ),
  ];
}

function unscored(row) {
  return row.reward === undefined || row.reward === null
    ? "No reward: this rollout was not scored."
    : `reward ${JSON.stringify(row.reward)}`;
}

function componentList(components) {
  const line = ([name, value]) =>
    h(
      "li",
      {},
      h("span", { class: "name" }, name),
      h("span", {
        class: "meter tone",
        vars: { "--size": tone(Number(value)), "--reward": tone(Number(value)) },
      }),
      h("span", { class: "value" }, typeof value === "number" ? format.reward(value) : JSON.stringify(value)),
    );
  return h("ul", { class: "components" }, Object.entries(components).map(line));
}

// ---- judges

const list = (value) => (Array.isArray(value) ? value : [value]);

const LABELS = ["verdict_label", "verdict", "label"];

function isJudgement(value) {
  const all = list(value);
  return (
    all.length > 0 &&
    all.every(
      (one) =>
        one !== null && typeof one === "object" && (LABELS.some((key) => key in one) || "response" in one),
    )
  );
}

function judgement(verdict, at) {
  const label = LABELS.map((key) => verdict[key]).find((value) => value !== undefined && value !== null);
  const asked = verdict.responses_create_params?.input;
  const answered = verdict.response?.output;
  const shown = [...LABELS, "responses_create_params", "response"];
  const rest = Object.entries(verdict).filter(
    ([key, value]) => !shown.includes(key) && !(Array.isArray(value) && !value.length),
  );
  return h(
    "article",
    { class: "verdict" },
    h(
      "header",
      {},
      h("h4", {}, `Verdict ${at + 1}`),
      h("code", { class: "label" }, label === undefined ? "no label" : text(label)),
    ),
    h(
      "div",
      { class: "content" },
      Array.isArray(answered)
        ? conversation(answered)
        : verdict.response !== undefined && jsonBlock(verdict.response),
      rest.length > 0 && values(rest),
      asked !== undefined && prompt(asked),
    ),
  );
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function prompt(asked) {
  const nodes =
    typeof asked === "string"
      ? [longText(asked), copyButton(asked)]
      : Array.isArray(asked)
        ? conversation(asked)
        : jsonBlock(asked);
  return h("details", { class: "prompt" }, h("summary", {}, "What the judge read"), nodes);
}
