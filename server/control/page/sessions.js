// Live sessions and their clients.

import { expire } from "./acts.js";
import { get, pages, post } from "./api.js";
import { andMore, attempt, badge, button, dim, doing, eachSecond, h, linkButton, look, onChange, onInput, put, reconcile, searchField, select, statusLine, table, to } from "./dom.js";
import { count, duration, moment, plural, sessionId, visible } from "./words.js";
import { definitions, endpointBadges, znodeLink } from "./znode.js";

const PAGE = 200;

export function open(place, params) {
  let selected = params.id || null;
  let limit = PAGE;
  let several = false; // servers
  const rates = new Map(); // by id: requests, when, how many per second
  const text = searchField("Name, address or id", "Filter", { value: params.text ?? "" });
  const order = select("order", [["", "by id"], ["ephemerals", "most ephemerals"], ["watches", "most watches"], ["left", "expires first"], ["age", "oldest connection"]], { "aria-label": "Order" });
  const ORDERS = {
    ephemerals: (row) => -row.ephemerals, watches: (row) => -row.watches,
    left: (row) => row.left_ms ?? Infinity, age: (row) => row.established ?? Infinity,
  };
  const state = statusLine();
  const body = h("tbody");
  const more = button("Show more", () => { limit += PAGE; refresh(); }, { hidden: true });
  const detail = h("article.detail", { "aria-label": "The session", hidden: true });
  const heads = ["Session", "Client", "Timeout", "Expires in", "Last request", "Req/s", "Ephemerals", "Watches"];
  put(place, h("div.split.wide",
    h("div.pane",
      h("div.bar", text, order, state),
      table(heads.map((head, at) => [head, at > 4 || at === 2 ? "num" : ""]), body), more),
    detail));
  onInput(refresh, text);
  onChange(refresh, order);

  function make(row) {
    const link = h("a.mono", { href: to("sessions", { id: row.id }) });
    const left = h("td", h("progress", { max: "1", "aria-label": "timeout left" }), h("span.num"));
    const element = h("tr", h("th", { scope: "row" }, link, h("div.tags")), h("td.mono"), h("td.num"), left,
      ...["", "num", "num", "num"].map((kind) => h("td", { class: kind })));
    [...element.children].forEach((cell, at) => { cell.dataset.label = heads[at]; }); // a narrow window has no heads
    element.addEventListener("click", (event) => { if (!event.target.closest("a")) location.hash = link.hash; });
    return element;
  }

  function update(element, row) {
    const [name, client, timeout, left, last, rate, ephemerals, watches] = element.children;
    element.classList.toggle("selected", row.id === selected);
    name.firstChild.textContent = visible(row.name || sessionId(row.id));
    put(name.lastChild, row.paused && badge("paused", "warn"), row.peer ? several && badge(`at server ${row.server}`) : badge("disconnected", "bad"), endpointBadges(row.endpoint), row.outstanding ? badge(`${row.outstanding} waiting`, "warn") : null);
    put(client, row.peer ?? "–", row.program && h("div.small.dim", visible(row.program)));
    const known = row.left_ms !== null;
    const left_ms = Math.min(row.left_ms ?? 0, row.timeout_ms); // its end is at the next tick
    left.firstChild.hidden = !known;
    left.firstChild.value = left_ms / row.timeout_ms;
    left.firstChild.className = left_ms < row.timeout_ms / 3 ? "low" : "";
    left.lastChild.textContent = known ? ` ${duration(left_ms)}` : "–";
    left.title = known ? "without a sign of life; sessions expire at multiples of the tick" : "the leader counts it";
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

  async function refresh(figures) {
    if (figures) several = Boolean(figures.server);
    const answer = await pages("/clients", { text: text.value }, limit, "clients", "id");
    const { rows } = answer;
    more.hidden = !answer.more;
    state.textContent = plural(answer.count, "live session");
    const key = ORDERS[order.value];
    if (key) rows.sort((a, b) => key(a) - key(b) || 0);
    reconcile(body, rows, (row) => row.id, make, update);
    for (const id of rates.keys()) if (!rows.some((row) => row.id === id)) rates.delete(id);
    await showDetail();
  }

  async function showDetail() {
    detail.hidden = !selected;
    if (!selected) return;
    let found;
    try {
      found = await get(`/clients/${encodeURIComponent(selected)}`);
    } catch (error) {
      if (error.status !== 404) throw error;
      put(detail, h("h1.mono", visible(selected)), h("p.empty", "This session is over."));
      detail.drawn = "";
      return;
    }
    selected = found.id;
    const state = JSON.stringify({ ...found, left_ms: 0, last_ms: 0, requests: 0, last_op: 0, latency_ms: 0 });
    if (state === detail.drawn) return;
    detail.drawn = state;
    const tell = (verb) => post(`/sessions/${encodeURIComponent(found.id)}/${verb}`);
    put(detail,
      h("h1.mono", visible(found.name || sessionId(found.id))),
      h("div.bar",
        doing("Disconnect", () => tell("disconnect"), "Its connection is cut", { disabled: !found.peer }),
        found.paused ? doing("Resume", () => tell("resume"), "Its client is heard again") : doing("Pause", () => tell("pause"), "Its client is cut off, unnoticed"),
        button("Expire", () => attempt(() => expire(found)), { class: "danger" }),
        linkButton("Timeline", "timeline", { session: found.id }), linkButton("Watches", "watches", { session: found.id })),
      definitions([
        ["Id", h("span.mono", sessionId(found.id))],
        ["Client", found.peer ? [h("span.mono", found.peer), found.server ? dim(`at server ${found.server}`) : null] : "not connected"],
        ...(found.endpoint ? [["Endpoint", [visible(found.endpoint.endpoint), " ", endpointBadges(found.endpoint)]]] : []),
        ...(found.program ? [["Program", visible(found.program)]] : []),
        ["Timeout", duration(found.timeout_ms)],
        ...(found.peer ? [["Connected", moment(found.established)], ["Last latency", `${found.latency_ms} ms`]] : []),
        ["Identities", h("ul.plain", found.auth.map((one) => h("li", `${visible(one.scheme)}:${visible(one.id)}`)))],
      ]),
      pathList(`Ephemerals (${count(found.ephemerals)})`, found.ephemeral_paths.map((path) => znodeLink(path)), found.ephemerals),
      pathList(`Watches (${count(found.watches)})`, found.watched.map(({ path, kinds, never }) => [znodeLink(path), " ", kinds.map((kind) => badge(kind)), never && h("p.remark", `never fires: ${visible(never)}`)]), found.watches));
  }

  function pathList(title, items, all) {
    return h("section", h("h2", title),
      items.length ? h("ul.plain", items.map((item) => h("li", item))) : h("p.dim", "none"),
      andMore(all, items.length));
  }

  return {
    refresh,
    go({ id }) {
      selected = id || null;
      detail.drawn = "";
      refresh();
    },
    close: eachSecond(),
  };
}
