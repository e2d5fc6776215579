// What the keys do.

import { byId, button, fill, h } from "./dom.js";

const KEYS = [
  ["j / k", "next / previous row"],
  ["Enter", "open the row that has the focus"],
  ["Esc", "close the row"],
  ["1 … 5", "part of the row: conversation, reward, …"],
  ["[ / ]", "previous / next page"],
  ["/", "search"],
  ["f", "follow the files, or not"],
  ["?", "this list"],
];

export function help() {
  const dialog = byId("keys");
  fill(
    dialog,
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl",
      {},
      KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
    h(
      "p",
      { class: "muted" },
      "Every view has its own address: copy it from the address bar to come back to it.",
    ),
    button("Close", () => dialog.close()),
  );
  dialog.showModal();
}
