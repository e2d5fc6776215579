// Builds the page. What comes from a file goes through text nodes and properties, never through markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "on")
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "vars")
      for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// Fills an element anew; what had the focus and comes again, by its data-key, has it afterwards.
export function refill(element, ...children) {
  const active = document.activeElement;
  const key = element.contains(active) ? active.dataset.key : undefined;
  fill(element, ...children);
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

export const byId = (id) => document.getElementById(id);

export function button(label, action, props = {}) {
  return h("button", { type: "button", ...props, on: { click: action } }, label);
}

export function announce(text) {
  byId("announce").textContent = text;
}

export async function copy(text, source) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not a secure context (another machine), or not allowed: the old way.
    const area = h("textarea", { class: "quiet" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied");
  if (!source) return;
  const before = source.textContent;
  if (before === "Copied") return;
  source.textContent = "Copied";
  setTimeout(() => (source.textContent = before), 1200);
}

export function copyButton(text, label = "Copy") {
  const made = button(label, () => copy(typeof text === "function" ? text() : text, made), {
    class: "small copy",
  });
  return made;
}
