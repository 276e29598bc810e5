// Locks, elections, queues ...: who holds them, and who waits for whom.

import { lines } from "./api.js";
import { andMore, badge, changed, check, dim, form, h, onChange, put, reconcile, statusLine, svg, textField } from "./dom.js";
import { count, duration, join, plural, serverNow, sessionName, visible } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

const MOST = 300; // directories that are drawn

export function open(place, params) {
  const path = textField("path", "/", { value: params.path || "/", "aria-label": "At and below" });
  const all = check("also groups, and what nobody holds");
  const state = statusLine();
  const rings = h("div.rings");
  const cards = h("div.cards");
  put(place,
    form("bar", () => refresh(), h("label.inline", "At and below ", path), all, state),
    rings, cards);
  onChange(refresh, all);

  async function refresh() {
    const found = [];
    let last = { directories: 0, cycles: [] };
    try {
      for await (const batch of lines("/locks", { path: path.value || "/" })) {
        for (const row of batch) {
          if (row.done) last = row;
          else if (found.length < 2000) found.push(row);
        }
      }
    } catch (error) {
      if (error.code !== -101) throw error;
      state.textContent = "there is no such znode";
      reconcile(cards, [], () => "", card, update);
      return;
    }
    const shown = found.filter((row) => all.control.checked || (row.shape !== "group" && (row.held || row.waiting || row.items)));
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

  function update(element, row) {
    if (!changed(element, row)) {
      for (const time of element.querySelectorAll("[data-since]")) time.textContent = since(Number(time.dataset.since));
      return;
    }
    element.classList.toggle("cycle", row.cycle);
    const words = [row.held || row.items === null ? plural(row.held, row.shape === "group" ? "member" : "holder") : null, row.waiting ? `${count(row.waiting)} waiting` : null,
      row.items !== null ? plural(row.items, "item") : null, row.limit !== null ? `${row.limit} at a time` : null];
    put(element,
      h("header", h("h2", znodeLink(row.path)), badge(row.shape, "shape"), row.libraries.map((library) => badge(library)),
        row.cycle && badge("waits in a circle", "bad"), dim(words.filter(Boolean).join(", "))),
      row.holders.length ? h("ul.holders", { "aria-label": "Holders" }, row.holders.map((one) => person(one, row, true))) : null,
      andMore(row.held, row.holders.length, "more hold it"),
      row.waiters.length ? h("ol.waiters", { "aria-label": "Waiters, in order" }, row.waiters.map((one) => person(one, row, false))) : null,
      andMore(row.waiting, row.waiters.length, "more wait"),
      row.remarks.map((remark) => h("p.remark", visible(remark, 500))),
      row.looked_at < row.children ? h("p.remark", `Only the first ${count(row.looked_at)} of ${count(row.children)} children were looked at.`) : null,
      row.unknown.length ? h("p.dim", `not recognised: ${visible(row.unknown.join(", "))}`) : null);
  }

  const since = (ms) => (serverNow() - ms < 1000 ? "now" : duration(serverNow() - ms));

  function person(one, row, holds) {
    const everybody = [...row.holders, ...row.waiters];
    const before = one.waits_for && everybody.find((other) => other.names.includes(one.waits_for));
    const who = (other) => (other.session ? sessionLink(other.session) : dim("no session"));
    return h("li", { class: holds ? "holds" : "waits" },
      h("span.state", holds ? (row.shape === "group" || row.shape === "double barrier" ? "in" : "holds") : "waits"),
      who(one), one.peer && h("span.mono.dim", one.peer),
      ["read", "write"].includes(one.role) ? badge(one.role, one.role) : null,
      one.since ? h("span.num", { title: "since", "data-since": one.since }, since(one.since)) : null,
      before ? dim("for ", who(before)) : one.waits_for ? h("span.dim.mono", `for ${visible(one.waits_for, 60)}`) : null,
      one.data && one.data !== one.session?.name ? h("span.dim.mono.data-of", { title: "its data" }, `“${visible(one.data, 40)}”`) : null,
      h("span.mono.dim.node", znodeLink(join(row.path, one.names[0]), one.names[0])));
  }

  /** A cycle of waiting: sessions on a circle, an arrow for each wait. */
  function ring(cycle) {
    const [wide, high] = [520, 220];
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
      h("h2", `${plural(cycle.length, "session")} wait for each other, for ever`),
      svg("svg", { viewBox: `0 0 ${wide} ${end}`, role: "img", "aria-label": visible(words.join("; "), 1000) }, svg("defs", marker), arrows, nodes),
      h("ul.plain", cycle.map((step, at) => h("li", sessionLink(step.session), " waits at ", znodeLink(step.path), " for ", sessionLink(cycle[(at + 1) % cycle.length].session)))));
  }

  return {
    refresh,
    go(given) {
      path.value = given.path || "/";
      refresh();
    },
  };
}
