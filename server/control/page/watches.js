// Watches, by path or of one session.

import { pages } from "./api.js";
import { andMore, badge, button, changed, check, dim, h, onChange, onInput, put, reconcile, searchField, statusLine, table, textField } from "./dom.js";
import { count, plural, visible } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

const PAGE = 200;
const WORDS = {
  data: "fires once when the data changes or the znode is deleted", exists: "fires once when the znode is created",
  children: "fires once when a child comes or goes", persistent: "fires for each change, until it is removed",
  recursive: "fires for each change at and below the path",
};

export function open(place, params) {
  let limit = PAGE;
  const text = searchField("A part of the path", "Filter");
  const session = textField("session", "any session", { "aria-label": "Only of the session" });
  const never = check("only those that never fire");
  const state = statusLine();
  const body = h("tbody");
  const more = button("Show more", () => { limit += PAGE; refresh(); }, { hidden: true });
  put(place, h("div.bar", text, h("label.inline", "Session ", session), never, state),
    table([["Path"], ["Watchers", "num"], ["Who, and the kind"]], body), more,
    h("dl.legend", Object.entries(WORDS).map(([kind, words]) => h("div", h("dt", badge(kind)), h("dd", words)))));
  onInput(refresh, text);
  onChange(refresh, session, never);

  const make = () => h("tr", h("th", { scope: "row" }), h("td.num", { "data-label": "Watchers" }), h("td"));

  function update(element, row) {
    if (!changed(element, row)) return;
    const [path, number, who] = element.children;
    put(path, znodeLink(row.path), row.exists ? null : [" ", badge("not there", "warn")]);
    number.textContent = count(row.count);
    put(who, row.watchers.map((one) => h("div.bar",
      one.session ? sessionLink(one.session) : dim("no session"), one.kinds.map((kind) => badge(kind)), one.never && h("span.remark", `never fires: ${visible(one.never)}`))),
    andMore(row.count, row.watchers.length));
  }

  async function refresh() {
    let answer = { rows: [], more: false };
    try {
      answer = await pages("/watches", { text: text.value, session: session.value, never: never.control.checked || "" }, limit, "watches", "path");
      state.textContent = answer.rows.length ? plural(answer.count, "watch", "watches") : never.control.checked ? "No such watch here." : "Nobody watches anything here.";
    } catch (error) {
      if (error.status !== 400) throw error;
      state.textContent = error.message;
    }
    more.hidden = !answer.more;
    reconcile(body, answer.rows, (row) => row.path, make, update);
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
