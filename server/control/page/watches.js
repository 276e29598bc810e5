// Watches, by path or of one session.

import { get } from "./api.js";
import { badge, button, h, put, reconcile } from "./dom.js";
import { count, plural } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

const PAGE = 200;
const WORDS = {
  data: "fires once when the data changes or the znode is deleted", exists: "fires once when the znode is created",
  children: "fires once when a child comes or goes", persistent: "fires for each change, until it is removed",
  recursive: "fires for each change at and below the path",
};

export function open(place, params) {
  let limit = PAGE;
  const text = h("input", { type: "search", placeholder: "A part of the path", "aria-label": "Filter", spellcheck: "false" });
  const session = h("input", { type: "text", class: "mono", placeholder: "any session", "aria-label": "Only of the session", spellcheck: "false" });
  const state = h("span", { class: "dim", role: "status" });
  const body = h("tbody");
  const more = button("Show more", () => { limit += PAGE; refresh(); }, { hidden: true });
  put(place, h("div", { class: "bar" }, text, h("label", { class: "inline" }, "Session ", session), state),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Path", "Watchers", "Who, and the kind"].map((head) => h("th", { scope: "col", class: head === "Watchers" && "num" }, head)))), body)), more,
    h("dl", { class: "legend" }, Object.entries(WORDS).map(([kind, words]) => h("div", {}, h("dt", {}, badge(kind)), h("dd", {}, words)))));
  text.addEventListener("input", () => refresh());
  session.addEventListener("change", () => refresh());

  const make = () => h("tr", {}, h("th", { scope: "row" }), h("td", { class: "num" }), h("td"));

  function update(element, row) {
    const drawn = JSON.stringify(row);
    if (element.drawn === drawn) return;
    element.drawn = drawn;
    const [path, number, who] = element.children;
    put(path, znodeLink(row.path), row.exists ? null : [" ", badge("not there", "warn")]);
    number.textContent = count(row.count);
    put(who, row.watchers.map((one) => h("div", { class: "who-row" },
      one.session ? sessionLink(one.session) : h("span", { class: "dim" }, "no session"), one.kinds.map((kind) => badge(kind)))),
    row.count > row.watchers.length ? h("div", { class: "dim" }, `and ${count(row.count - row.watchers.length)} more`) : null);
  }

  async function refresh() {
    const rows = [];
    let answer = { more: false, count: 0 };
    try {
      do {
        answer = await get("/watches", { text: text.value, session: session.value, limit: Math.min(1000, limit - rows.length), after: rows.at(-1)?.path });
        rows.push(...answer.watches);
      } while (answer.more && rows.length < limit);
      state.textContent = rows.length ? plural(answer.count, "watch", "watches") : "Nobody watches anything here.";
    } catch (error) {
      if (error.status !== 400) throw error;
      state.textContent = error.message;
    }
    more.hidden = !answer.more;
    reconcile(body, rows, (row) => row.path, make, update);
  }

  function go(given) {
    text.value = given.text ?? "";
    session.value = given.session ?? "";
    return refresh();
  }
  text.value = params.text ?? "";
  session.value = params.session ?? "";
  return { refresh, go };
}
