// Locks, elections, queues ...: who holds them, and who waits for whom.

import { lines } from "./api.js";
import { badge, h, put, reconcile, svg } from "./dom.js";
import { count, plural, serverNow, sessionName, visible, duration } from "./words.js";
import { sessionLink, znodeLink } from "./znode.js";

const MOST = 300; // directories that are drawn

export function open(place, params) {
  const path = h("input", { type: "text", class: "mono", value: params.path || "/", "aria-label": "At and below", spellcheck: "false" });
  const all = h("input", { type: "checkbox" });
  const state = h("span", { class: "dim", role: "status" });
  const rings = h("div", { class: "rings" });
  const cards = h("div", { class: "locks-list" });
  put(place,
    h("form", { class: "bar", on: { submit: (event) => { event.preventDefault(); refresh(); } } }, h("label", { class: "inline" }, "At and below ", path),
      h("label", { class: "check" }, all, "also groups, and what nobody holds"), state),
    rings, cards);
  all.addEventListener("change", () => refresh());

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
    const shown = found.filter((row) => all.checked || (row.shape !== "group" && (row.held || row.waiting || row.items)));
    const weight = (row) => (row.waiting ? 0 : row.held ? 1 : 2);
    shown.sort((a, b) => weight(a) - weight(b) || (a.path < b.path ? -1 : 1));
    const locked = new Set(last.cycles.flat().map((step) => step.path));
    for (const row of shown) row.cycle = locked.has(row.path);
    state.textContent = `${plural(last.directories, "directory", "directories")} recognised${shown.length > MOST ? `, the first ${MOST} shown` : ""}`;
    const state2 = JSON.stringify(last.cycles);
    if (rings.drawn !== state2) {
      rings.drawn = state2;
      put(rings, last.cycles.map(ring));
    }
    reconcile(cards, shown.slice(0, MOST), (row) => row.path, card, update);
    cards.classList.toggle("none", !shown.length);
    if (!shown.length) put(cards.previousElementSibling === rings && !last.cycles.length ? rings : h("div"), h("p", { class: "empty" }, "Nobody holds or waits for anything here."));
    else if (!last.cycles.length) put(rings);
    if (!shown.length || !last.cycles.length) rings.drawn = "";
  }

  const card = () => h("article", { class: "lock" });

  function update(element, row) {
    const drawn = JSON.stringify(row);
    if (element.drawn === drawn) {
      for (const time of element.querySelectorAll("[data-since]")) time.textContent = since(Number(time.dataset.since));
      return;
    }
    element.drawn = drawn;
    element.classList.toggle("cycle", row.cycle);
    const words = [plural(row.held, row.shape === "group" ? "member" : "holder"), row.waiting ? `${count(row.waiting)} waiting` : null,
      row.items !== null ? plural(row.items, "item") : null, row.limit !== null ? `${row.limit} at a time` : null];
    put(element,
      h("header", {}, h("h2", {}, znodeLink(row.path)), badge(row.shape, "shape"), row.libraries.map((library) => badge(library)),
        row.cycle && badge("waits in a circle", "bad"), h("span", { class: "dim" }, words.filter(Boolean).join(", "))),
      row.holders.length ? h("ul", { class: "holders", "aria-label": "Holders" }, row.holders.map((one) => person(one, row, true))) : null,
      row.held > row.holders.length ? h("p", { class: "dim" }, `and ${count(row.held - row.holders.length)} more hold it`) : null,
      row.waiters.length ? h("ol", { class: "waiters", "aria-label": "Waiters, in order" }, row.waiters.map((one) => person(one, row, false))) : null,
      row.waiting > row.waiters.length ? h("p", { class: "dim" }, `and ${count(row.waiting - row.waiters.length)} more wait`) : null,
      row.remarks.map((remark) => h("p", { class: "remark" }, visible(remark, 500))),
      row.looked_at < row.children ? h("p", { class: "remark" }, `Only the first ${count(row.looked_at)} of ${count(row.children)} children were looked at.`) : null,
      row.unknown.length ? h("p", { class: "dim" }, `not recognised: ${visible(row.unknown.join(", "))}`) : null);
  }

  const since = (ms) => (serverNow() - ms < 1000 ? "now" : duration(serverNow() - ms));

  function person(one, row, holds) {
    const everybody = [...row.holders, ...row.waiters];
    const before = one.waits_for && everybody.find((other) => other.names.includes(one.waits_for));
    const who = (other) => (other.session ? sessionLink(other.session) : h("span", { class: "dim" }, "no session"));
    return h("li", { class: holds ? "holds" : "waits" },
      h("span", { class: "state" }, holds ? (row.shape === "group" || row.shape === "double barrier" ? "in" : "holds") : "waits"),
      who(one), one.peer && h("span", { class: "mono dim" }, one.peer),
      ["read", "write"].includes(one.role) ? badge(one.role, one.role) : null,
      one.since ? h("span", { class: "num", title: "since", "data-since": one.since }, since(one.since)) : null,
      before ? h("span", { class: "dim" }, "for ", who(before)) : one.waits_for ? h("span", { class: "dim mono" }, `for ${visible(one.waits_for, 60)}`) : null,
      one.data && one.data !== one.session?.name ? h("span", { class: "dim mono data-of", title: "its data" }, `“${visible(one.data, 40)}”`) : null,
      h("span", { class: "mono dim node" }, znodeLink(row.path === "/" ? `/${one.names[0]}` : `${row.path}/${one.names[0]}`, one.names[0])));
  }

  /** A cycle of waiting: sessions on a circle, an arrow for each wait. */
  function ring(cycle) {
    const [wide, high] = [520, 250];
    const points = cycle.map((_, at) => {
      const angle = (2 * Math.PI * at) / cycle.length - (cycle.length === 2 ? Math.PI : Math.PI / 2);
      return [wide / 2 + 170 * Math.cos(angle), high / 2 + (cycle.length === 3 ? 12 : 0) + 78 * Math.sin(angle)];
    });
    const arrows = points.map(([x, y], at) => {
      const [tx, ty] = points[(at + 1) % points.length];
      const length = Math.hypot(tx - x, ty - y) || 1;
      const [ux, uy] = [(tx - x) / length, (ty - y) / length];
      const [mx, my] = [(x + tx) / 2 + uy * 44, (y + ty) / 2 - ux * 44]; // the way goes clockwise: bend it outwards
      const [lx, ly] = [(x + tx) / 2 + uy * 36, (y + ty) / 2 - ux * 36 + 4];
      const anchor = Math.abs(uy) < 0.3 ? "middle" : uy > 0 ? "start" : "end";
      return [
        svg("path", { d: `M ${x + ux * 20 + uy * 8} ${y + uy * 20 - ux * 8} Q ${mx} ${my} ${tx - ux * 20 + uy * 8} ${ty - uy * 20 - ux * 8}`, class: "arrow", "marker-end": "url(#head)" }),
        svg("text", { x: lx, y: ly, class: "label", "text-anchor": anchor }, visible(cycle[at].path, 30)),
      ];
    });
    const nodes = points.map(([x, y], at) => svg("g", {}, svg("circle", { cx: x, cy: y, r: 11 }),
      svg("text", { x, y: y + (y < high / 2 - 5 ? -18 : 28), class: "who" }, visible(sessionName(cycle[at].session), 24))));
    const words = cycle.map((step, at) => `${sessionName(step.session)} waits at ${step.path} for ${sessionName(cycle[(at + 1) % cycle.length].session)}`);
    const marker = svg("marker", { id: "head", viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0 10 5 0 10z" }));
    return h("section", { class: "ring" },
      h("h2", {}, `${plural(cycle.length, "session")} wait for each other, for ever`),
      svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": visible(words.join("; "), 1000) }, svg("defs", {}, marker), arrows, nodes),
      h("ul", { class: "plain" }, cycle.map((step, at) => h("li", {}, sessionLink(step.session), " waits at ", znodeLink(step.path), " for ", sessionLink(cycle[(at + 1) % cycle.length].session)))));
  }

  return {
    refresh,
    go(given) {
      path.value = given.path || "/";
      refresh();
    },
  };
}
