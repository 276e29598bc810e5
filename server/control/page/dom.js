// Building the page. Text from the server becomes text nodes and attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Keys of `props`: `on` has listeners by event; others are attributes; false and null are left out. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "value") {
      element.value = value;
    } else if (value !== false && value !== null && value !== undefined) {
      if (/^on/i.test(name)) throw new Error(`no handler as an attribute: ${name}`);
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what is in an element. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make the children of `parent` those of `items`, in this order. An element is kept for as long as its key is there. */
export function reconcile(parent, items, keyOf, make, update) {
  const before = (parent.keyed ??= new Map());
  const after = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = before.get(key) ?? make(item);
    update(element, item);
    after.set(key, element);
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
  }
  for (const [key, element] of before) if (after.get(key) !== element) element.remove();
  parent.keyed = after;
}

export function button(text, act, props = {}) {
  return h("button", { type: "button", on: { click: act }, ...props }, text);
}

export function field(label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

export function select(name, choices, props = {}) {
  return h("select", { name, ...props }, choices.map(([value, text]) => h("option", { value }, text ?? value)));
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** Say something for a few seconds. */
export function toast(text, kind = "") {
  const place = document.getElementById("toasts");
  const element = h("p", { class: `toast ${kind}` }, text);
  place.append(element);
  while (place.children.length > 4) place.firstChild.remove();
  setTimeout(() => element.remove(), kind === "bad" ? 9000 : 4000);
}

/** Do something; what goes wrong is told. Returns whether it went well. */
export async function attempt(work, done = "") {
  try {
    await work();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}

export async function copy(text, what = "Copied") {
  await attempt(() => navigator.clipboard.writeText(text), what);
}

export function download(name, parts, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Show a form in a dialog. `act` gets the form and may throw: then the dialog stays, and says why. */
export function ask(title, content, action, act, { danger = false } = {}) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), content, wrong,
    h("div", { class: "buttons" },
      button("Cancel", () => dialog.close()),
      h("button", { type: "submit", class: danger ? "danger" : "primary" }, action)));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await act(form);
      dialog.close();
    } catch (error) {
      wrong.textContent = error.message;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
