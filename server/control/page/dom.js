// Building the page. Text from the server becomes text nodes and attribute values, never markup.

import { count } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** The address of a view. */
export const to = (view, params) => `#${view}?${new URLSearchParams(params)}`;

/** Have the view look at the server at once. */
export const look = () => document.dispatchEvent(new Event("look"));

/** Make an element: `h("p.dim", { id: "x" }, "text")`. The attributes may be left out; false and null are no attributes,
 * and `on` has listeners by event. */
export const h = (name, ...rest) => make((tag) => document.createElement(tag), name, ...rest);

/** The same for SVG. */
export const svg = (name, ...rest) => make((tag) => document.createElementNS(SVG, tag), name, ...rest);

function make(create, name, props, ...children) {
  if (props?.constructor !== Object) return make(create, name, {}, props, ...children);
  const [tag, ...classes] = name.split(".");
  const element = create(tag);
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(props)) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (key === "value") {
      element.value = value;
    } else if (value !== false && value !== null && value !== undefined) {
      if (/^on/i.test(key)) throw new Error(`no handler as an attribute: ${key}`);
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  element.append(...shown(children));
  return element;
}

const shown = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Replace what is in an element. The focus stays at its place. */
export function put(element, ...children) {
  const places = () => [...element.querySelectorAll("a, button")];
  const at = places().indexOf(document.activeElement);
  element.replaceChildren(...shown(children));
  places()[at]?.focus();
  return element;
}

/** Make the children of `parent` those of `items`, in this order. An element is kept for as long as its key is there. */
export function reconcile(parent, items, keyOf, make, update) {
  const before = parent.keyed ?? new Map();
  const after = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, element] of before) if (!after.has(key)) element.remove();
  let place = parent.firstChild;
  for (const [key, item] of after) {
    const element = before.get(key) ?? make(item);
    update(element, item);
    after.set(key, element);
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
  }
  parent.keyed = after;
}

/** Whether an element is to show something else than before. */
export function changed(element, state) {
  const before = element.drawn;
  element.drawn = JSON.stringify(state);
  return element.drawn !== before;
}

/** Call `act` when one of the controls has another value. */
export const onChange = (act, ...controls) => controls.forEach((control) => control.addEventListener("change", () => act()));

/** The same while somebody types. */
export const onInput = (act, control) => control.addEventListener("input", () => act());

export const dim = (...words) => h("span.dim", words);

/** A line that says how things stand. */
export const statusLine = () => h("p.dim", { role: "status" }, "looking …");

/** What is not listed of so many. */
export const andMore = (all, listed, what = "more") => (all > listed ? h("p.dim", `and ${count(all - listed)} ${what}`) : null);

export const button = (text, act, props) => h("button", { type: "button", on: { click: act }, ...props }, text);

export const submit = (text, kind = "primary") => h("button", { type: "submit", class: kind }, text);

export const form = (kind, act, ...children) =>
  h("form", { class: kind, on: { submit: (event) => { event.preventDefault(); act(event.target); } } }, children);

export const field = (label, control) => h("label.field", h("span", label), control);

export const searchField = (placeholder, label, props) =>
  h("input", { type: "search", placeholder, "aria-label": label, spellcheck: "false", ...props });

/** A field for a word or a path. */
export const textField = (name, placeholder, props) => h("input", { name, placeholder, class: "mono", spellcheck: "false", ...props });

export const check = (words, checked) => h("label.check", h("input", { type: "checkbox", checked }), words);

export const select = (name, choices, props) =>
  h("select", { name, ...props }, choices.map(([value, text]) => h("option", { value }, text ?? value)));

export const linkButton = (text, view, params) => h("a.button", { href: to(view, params) }, text);

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

export const table = (heads, body) =>
  h("div.scroll", h("table", h("thead", h("tr", heads.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)))), body));

/** Say something for a few seconds. */
export function toast(text, kind = "") {
  const place = document.getElementById("toasts");
  const element = h("p", { class: `toast ${kind}` }, text);
  place.append(element);
  while (place.children.length > 4) place.firstChild.remove();
  setTimeout(() => element.remove(), kind === "bad" ? 9000 : 4000);
}

/** Do something; what goes wrong is told. */
export async function attempt(work, done) {
  try {
    await work();
    if (done) toast(done);
  } catch (error) {
    toast(error.message, "bad");
  }
}

/** The same to the server: the view shows what has become of it. */
export const act = (work, done) => attempt(work, done).then(look);

/** A button for that. */
export const doing = (text, work, done, props) => button(text, () => act(work, done), props);

/** Have the view look again each second, as time passes without an event; returns what ends that. */
export function eachSecond() {
  const timer = setInterval(() => document.dispatchEvent(new Event("tick")), 1000);
  return () => clearInterval(timer);
}

export const copy = (text, what) => attempt(() => navigator.clipboard.writeText(text), what);

export function download(name, parts, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Show a form in a dialog. `act` is async and may throw: then the dialog stays, and says why. */
export function ask(title, content, action, act, { danger = false } = {}) {
  const wrong = h("p.wrong", { role: "alert" });
  const go = () => act().then(() => dialog.close(), (error) => { wrong.textContent = error.message; });
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } },
    form("", go, h("h2", { id: "dialog-title" }, title), content, wrong,
      h("div.buttons", button("Cancel", () => dialog.close()), submit(action, danger ? "danger" : "primary"))));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
