// What clients do wrong, as far as the history shows it, and what to do instead.

import { get } from "./api.js";
import { changed, dim, doing, h, put, reconcile, statusLine, to } from "./dom.js";
import { ago, plural, serverNow, visible } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

export function open(place) {
  const state = statusLine();
  let route = "/advice";
  const start = doing("Look from now on", () => get(route), "", { class: "primary", hidden: true });
  let next = 0; // a look of up to 0.3 s takes 3 % of the time; a slower one is repeated after 10 s
  const list = h("div.cards");
  put(place, state, h("div.bar", start), list);

  function update(element, [rule, found]) {
    if (!changed(element, found)) return;
    put(element, h("h2", rule), h("p", found[0].explanation), h("p", h("b", "Instead: "), found[0].remedy),
      h("ul.armed", { "aria-label": "Evidence" }, found.map((one) => h("li", h("div",
        h("div", visible(one.evidence, 500)),
        h("div.bar", dim(one.ago),
          one.sessions.map((session) => sessionLink(session)),
          one.paths.map((path) => [znodeLink(path), h("a", { href: to("timeline", { path }) }, "timeline")])))))));
  }

  async function refresh(figures) {
    if (!figures) return;
    if (figures.server) route = "/ensemble/advice";
    start.hidden = figures.whole;
    if (!figures.records) {
      state.textContent = "The advisor reads the history, which is not recorded yet. Recording costs each request some time.";
      return;
    }
    if (performance.now() < next) return;
    const began = performance.now();
    const { findings } = await get(route, figures.whole ? {} : { begin: false });
    const now = performance.now();
    next = now + Math.min(33 * (now - began), 10000);
    const at = figures.server ? ", at all servers of the ensemble" : "";
    const recent = figures.whole ? "" : " The latest is recorded, while little comes.";
    const rules = new Map();
    for (const one of findings) {
      one.ago = ago(serverNow() - 1000 * Math.max(0, Math.round(figures.seconds - one.last)));
      rules.set(one.rule, [...(rules.get(one.rule) ?? []), one]);
    }
    state.textContent = findings.length ? `${plural(findings.length, "finding")}${at}.${recent}` : `Nothing to say about what clients have done so far${at}.${recent}`;
    reconcile(list, [...rules], ([rule]) => rule, ([rule]) => h("article.card", { "aria-label": rule }), update);
  }
  return { refresh };
}
