// Live sessions and their clients.

import { get, post, session as segment } from "./api.js";
import { ask, attempt, badge, button, h, put, reconcile } from "./dom.js";
import { count, duration, identity, moment, plural, sessionId, visible } from "./words.js";
import { definitions, znodeLink } from "./znode.js";

const PAGE = 200;

export function open(place, params) {
  let selected = params.id || null;
  let limit = PAGE;
  const rates = new Map(); // by id: requests, when, how many per second
  const text = h("input", { type: "search", placeholder: "Name, address or id", "aria-label": "Filter", spellcheck: "false", value: params.text ?? "" });
  const state = h("span", { class: "dim", role: "status" });
  const body = h("tbody");
  const more = button("Show more", () => { limit += PAGE; refresh(); }, { hidden: true });
  const detail = h("article", { class: "detail", "aria-label": "The session", hidden: true });
  const heads = ["Session", "Client", "Timeout", "Expires in", "Last request", "Req/s", "Ephemerals", "Watches"];
  put(place, h("div", { class: "split wide" },
    h("div", { class: "pane" },
      h("div", { class: "bar" }, text, state),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: at > 4 || at === 2 ? "num" : false }, head)))), body)), more),
    detail));
  text.addEventListener("input", () => refresh());

  function make(row) {
    const link = h("a", { class: "mono", href: `#sessions?${new URLSearchParams({ id: row.id })}` });
    const bar = h("progress", { max: "1" });
    const left = h("td", {}, bar, h("span", { class: "num" }));
    const element = h("tr", {}, h("th", { scope: "row" }, link, h("div", { class: "tags" })), h("td", { class: "mono" }), h("td", { class: "num" }), left,
      ...["", "num", "num", "num"].map((kind) => h("td", { class: kind })));
    element.addEventListener("click", (event) => { if (!event.target.closest("a")) location.hash = link.hash; });
    return element;
  }

  function update(element, row) {
    const [name, client, timeout, left, last, rate, ephemerals, watches] = element.children;
    element.classList.toggle("selected", row.id === selected);
    name.firstChild.textContent = visible(row.name || sessionId(row.id));
    put(name.lastChild, row.paused && badge("paused", "warn"), !row.peer && badge("disconnected", "bad"), row.outstanding ? badge(`${row.outstanding} waiting`, "warn") : null);
    client.textContent = row.peer ?? "–";
    const share = Math.min(row.left_ms / row.timeout_ms, 1);
    left.firstChild.value = share;
    left.firstChild.className = share < 0.34 ? "low" : "";
    left.firstChild.setAttribute("aria-label", "timeout left");
    left.lastChild.textContent = ` ${duration(row.left_ms)}`;
    left.title = "without a sign of life; sessions expire at multiples of the tick";
    timeout.textContent = duration(row.timeout_ms);
    last.textContent = row.last_op ? `${row.last_op}, ${duration(row.last_ms)} ago` : "–";
    rate.textContent = row.peer ? perSecond(row) : "–";
    ephemerals.textContent = count(row.ephemerals);
    watches.textContent = count(row.watches);
  }

  function perSecond(row) {
    const now = performance.now();
    const before = rates.get(row.id) ?? { requests: row.requests, at: now, rate: 0 };
    if (now - before.at > 900) {
      before.rate = Math.max(0, (1000 * (row.requests - before.requests)) / (now - before.at));
      Object.assign(before, { requests: row.requests, at: now });
    }
    rates.set(row.id, before);
    return before.rate < 10 ? before.rate.toFixed(1) : count(Math.round(before.rate));
  }

  async function refresh() {
    const rows = [];
    let answer;
    do {
      answer = await get("/clients", { text: text.value, limit: Math.min(1000, limit - rows.length), after: rows.at(-1)?.id });
      rows.push(...answer.clients);
    } while (answer.more && rows.length < limit);
    more.hidden = !answer.more;
    state.textContent = plural(answer.count, "live session");
    reconcile(body, rows, (row) => row.id, make, update);
    for (const id of rates.keys()) if (!rows.some((row) => row.id === id)) rates.delete(id);
    await showDetail();
  }

  async function showDetail() {
    detail.hidden = !selected;
    if (!selected) return;
    let found;
    try {
      found = await get(`/clients/${segment(selected)}`);
    } catch (error) {
      if (error.status !== 404) throw error;
      put(detail, h("h1", { class: "mono" }, visible(selected)), h("p", { class: "empty" }, "This session is over."));
      detail.drawn = "";
      return;
    }
    selected = found.id;
    const state = JSON.stringify({ ...found, left_ms: 0, last_ms: 0, requests: 0, last_op: 0, latency_ms: 0 });
    if (state === detail.drawn) return;
    detail.drawn = state;
    const act = (verb, done) => attempt(async () => {
      await post(`/sessions/${segment(found.id)}/${verb}`);
      document.dispatchEvent(new Event("acted"));
    }, done);
    const expire = () => ask("Expire a session", h("p", {}, "Its ", plural(found.ephemerals, "ephemeral"), ` ${found.ephemerals === 1 ? "is" : "are"} deleted, and its client is told that the session is gone, as if the timeout had passed.`),
      "Expire", async () => { await post(`/sessions/${segment(found.id)}/expire`); document.dispatchEvent(new Event("acted")); }, { danger: true });
    put(detail,
      h("h1", { class: "mono" }, visible(found.name || sessionId(found.id))),
      h("div", { class: "bar" },
        button("Disconnect", () => act("disconnect", "Its connection is cut"), { disabled: !found.peer }),
        found.paused ? button("Resume", () => act("resume", "Its client is heard again")) : button("Pause", () => act("pause", "Its client is cut off, unnoticed")),
        button("Expire", expire, { class: "danger" }),
        h("a", { class: "button", href: `#timeline?${new URLSearchParams({ session: found.id })}` }, "Timeline"),
        h("a", { class: "button", href: `#watches?${new URLSearchParams({ session: found.id })}` }, "Watches")),
      definitions([
        ["Id", h("span", { class: "mono" }, sessionId(found.id))],
        ["Client", found.peer ? h("span", { class: "mono" }, found.peer) : "not connected"],
        ["Timeout", duration(found.timeout_ms)],
        ...(found.peer ? [["Connected", moment(found.established)], ["Last latency", `${found.latency_ms} ms`]] : []),
        ["Identities", h("ul", { class: "plain" }, found.auth.map((one) => h("li", {}, `${visible(one.scheme)}:${visible(one.id)}`)))],
      ]),
      pathList(`Ephemerals (${count(found.ephemerals)})`, found.ephemeral_paths.map((path) => znodeLink(path)), found.ephemerals),
      pathList(`Watches (${count(found.watches)})`, found.watched.map(({ path, kinds }) => [znodeLink(path), " ", kinds.map((kind) => badge(kind))]), found.watches));
  }

  function pathList(title, items, all) {
    return h("section", {}, h("h2", {}, title),
      items.length ? h("ul", { class: "plain" }, items.map((item) => h("li", {}, item))) : h("p", { class: "dim" }, "none"),
      all > items.length ? h("p", { class: "dim" }, `and ${count(all - items.length)} more`) : null);
  }

  const ticking = setInterval(() => document.dispatchEvent(new Event("tick")), 1000); // time runs out without an event
  return {
    refresh,
    go({ id }) {
      selected = id || null;
      detail.drawn = "";
      refresh();
    },
    close: () => clearInterval(ticking),
  };
}
