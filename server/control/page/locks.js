// Locks, elections, queues ...: who holds them, and who waits for whom.

import { askBack, erase, expire, isAsked, revocable } from "./acts.js";
import { get } from "./api.js";
import { inUse, readLocks } from "./contention.js";
import { andMore, attempt, badge, button, changed, check, dim, form, h, linkButton, onChange, put, reconcile, statusLine, svg, textField, to } from "./dom.js";
import { clock, count, duration, join, plural, serverNow, sessionId, sessionName, visible } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

const MOST = 300; // directories that are drawn
const ASKED = new Set(["lock", "read-write lock"]);

export function open(place, params) {
  const path = textField("path", "/", { value: params.path || "/", "aria-label": "At and below" });
  const all = check("also groups, and what nobody holds");
  const state = statusLine();
  const rings = h("div.rings");
  const cards = h("div.cards");
  put(place,
    form("bar", () => { location.hash = to("locks", { path: path.value || "/" }); refresh(); }, h("label.inline", "At and below ", path), all, state),
    rings, cards);
  onChange(refresh, all);

  async function refresh() {
    let last;
    try {
      last = await readLocks(path.value || "/");
    } catch (error) {
      if (error.code !== -101) throw error;
      state.textContent = "there is no such znode";
      reconcile(cards, [], () => "", card, update);
      return;
    }
    const shown = last.rows.filter((row) => all.control.checked || inUse(row));
    const weight = (row) => (row.waiting ? 0 : row.held ? 1 : 2);
    shown.sort((a, b) => weight(a) - weight(b) || (a.path < b.path ? -1 : 1));
    const locked = new Set(last.cycles.flat().map((step) => step.path));
    for (const row of shown) row.cycle = locked.has(row.path);
    state.textContent = `${plural(last.directories, "directory", "directories")} recognised${shown.length > MOST ? `, the first ${MOST} shown` : ""}`;
    if (changed(rings, [last.cycles, !shown.length])) {
      put(rings, last.cycles.map(ring), shown.length ? null : h("p.empty", "Nobody holds or waits for anything here."));
    }
    reconcile(cards, shown.slice(0, MOST), (row) => row.path, card, update);
  }

  const card = () => h("article.card");
  const pasts = new Map(); // by path: the holds that are over, as they were when somebody asked

  const askPast = (row) => attempt(async () => { pasts.set(row.path, await get("/locks/past", { path: row.path })); refresh(); });

  /** Who has held a lock before, each with a bar as long as it was held. */
  function past({ count: all, holds }) {
    const longest = Math.max(1, ...holds.map((one) => one.ended - one.begun));
    return h("section.past", h("h3", "Held before"), holds.length ? h("ul.plain", holds.toReversed().map((one) => h("li",
      h("meter", { max: longest, value: one.ended - one.begun, title: "for so long", "aria-label": `held for ${duration(one.ended - one.begun)}` }), " ",
      h("span.num", duration(one.ended - one.begun)), " ", one.session ? sessionLink(one.session) : dim("not known"), dim(` until ${clock(one.ended)}`))))
      : h("p.dim", "By nobody, as far as the history reaches back."), andMore(all, holds.length));
  }

  function update(element, row) {
    if (!changed(element, [row, pasts.get(row.path)])) {
      for (const time of element.querySelectorAll("[data-since]")) time.textContent = since(Number(time.dataset.since));
      return;
    }
    element.classList.toggle("cycle", row.cycle);
    const words = [row.held || row.items === null ? plural(row.held, row.shape === "group" ? "member" : "holder") : null, row.waiting ? `${count(row.waiting)} waiting` : null,
      row.items !== null ? plural(row.items, "item") : null, row.limit !== null ? `${row.limit} at a time` : null];
    put(element,
      h("header", h("h2", znodeLink(row.path)), badge(row.shape, "shape"), row.libraries.map((library) => badge(library)),
        row.cycle && badge("deadlock", "bad"), dim(words.filter(Boolean).join(", "))),
      row.holders.length ? h("ul.holders", { "aria-label": "Holders" }, row.holders.map((one) => person(one, row, true))) : null,
      andMore(row.held, row.holders.length, "more hold it"),
      row.waiters.length ? h("ol.waiters", { "aria-label": "Waiters, in order" }, row.waiters.map((one) => person(one, row, false))) : null,
      andMore(row.waiting, row.waiters.length, "more wait"),
      row.remarks.map((remark) => h("p.remark", visible(remark, 500))),
      row.looked_at < row.children ? h("p.remark", `Only the first ${count(row.looked_at)} of ${count(row.children)} children were looked at.`) : null,
      row.unknown.length ? h("p.dim", `not recognised: ${visible(row.unknown.join(", "))}`) : null,
      pasts.has(row.path) && past(pasts.get(row.path)),
      h("div.bar", row.shape === "lock" && button("Held before", () => askPast(row)), linkButton("Timeline of it", "timeline", { path: `${row.path === "/" ? "" : row.path}/**` }), linkButton("In the tree", "tree", { path: row.path })));
  }

  const since = (ms) => (serverNow() - ms < 1000 ? "now" : duration(serverNow() - ms));

  function person(one, row, holds) {
    const everybody = [...row.holders, ...row.waiters];
    const before = one.waits_for && everybody.find((other) => other.names.includes(one.waits_for));
    const who = (other) => (other.session ? sessionLink(other.session) : dim("no session"));
    const own = one.data && one.data !== one.session?.name && !isAsked(one) ? one.data : null;
    return h("li", { class: holds ? "holds" : "waits" },
      h("span.state", holds ? (row.shape === "group" || row.shape === "double barrier" ? "in" : "holds") : "waits"),
      h("div.who",
        h("div", own && h("b.data-of", { title: "its data" }, `${visible(own)} `), who(one), " ",
          ["read", "write"].includes(one.role) ? badge(one.role, one.role) : null, isAsked(one) ? badge("asked back", "warn") : null,
          one.since ? h("span.num", { title: "since", "data-since": one.since }, since(one.since)) : null,
          before ? dim(" for ", who(before)) : one.waits_for ? h("span.dim.mono", ` for ${visible(one.waits_for, 60)}`) : null),
        h("div.small.dim.about", one.program && h("span", visible(one.program)), one.peer && h("span.mono", one.peer), one.session?.name && h("span.mono", sessionId(one.session.id)), h("span.mono.node", znodeLink(join(row.path, one.names[0]), one.names[0])))),
      acts(one, row, holds));
  }

  const expireButton = (session) => button("Expire", () => attempt(() => expire(session)), { class: "danger", "aria-label": `Expire ${visible(sessionName(session))}` });

  function acts(one, row, holds) {
    const label = (word) => ({ "aria-label": `${word} ${visible(one.names[0])}` });
    return h("div.acts",
      holds && ASKED.has(row.shape) && revocable(one) && button("Ask back", () => askBack(row.path, one), label("Ask back")),
      one.session && expireButton(one.session),
      button("Delete", () => erase(row.path, one, holds), { class: "danger", ...label("Delete") }));
  }

  /** A cycle of waiting: sessions on a circle, an arrow for each wait. */
  function ring(cycle) {
    const [wide, high] = [520, cycle.length === 2 ? 110 : 220];
    const points = cycle.map((_, at) => {
      const angle = (2 * Math.PI * at) / cycle.length - Math.PI / (cycle.length === 2 ? 1 : 2);
      return [wide / 2 + 170 * Math.cos(angle), high / 2 + 70 * Math.sin(angle)];
    });
    const arrows = points.map(([x, y], at) => {
      const [tx, ty] = points[(at + 1) % points.length];
      const [gap, dx, dy] = [22 / Math.hypot(tx - x, ty - y), tx - x, ty - y];
      return svg("path.arrow", { d: `M ${x + gap * dx} ${y + gap * dy} L ${tx - gap * dx} ${ty - gap * dy}`, "marker-end": "url(#head)" });
    });
    const nodes = points.map(([x, y], at) => svg("g", svg("circle", { cx: x, cy: y, r: 11 }),
      svg("text", { x, y: y + (y < high / 2 - 5 ? -18 : 28) }, visible(sessionName(cycle[at].session), 24))));
    const end = Math.max(...points.map(([, y]) => y)) + 40;
    const words = cycle.map((step, at) => `${sessionName(step.session)} waits at ${step.path} for ${sessionName(cycle[(at + 1) % cycle.length].session)}`);
    const marker = svg("marker", { id: "head", viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0 10 5 0 10z" }));
    return h("section.ring",
      h("h2", `Deadlock: ${plural(cycle.length, "session")} wait for each other, for ever`),
      svg("svg", { viewBox: `0 0 ${wide} ${end}`, role: "img", "aria-label": visible(words.join("; "), 1000) }, svg("defs", marker), arrows, nodes),
      h("ul.plain", cycle.map((step, at) => h("li", sessionLink(step.session), " waits at ", znodeLink(step.path), " for ", sessionLink(cycle[(at + 1) % cycle.length].session), " ", expireButton(step.session)))),
      h("p", "Each holds what the next one waits for. It ends when one of them gives up, or its session ends."));
  }

  return {
    refresh,
    go(given) {
      path.value = given.path || "/";
      refresh();
    },
  };
}
