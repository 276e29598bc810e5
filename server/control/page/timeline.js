// What clients do, live: a line for each request with its reply, event, session and fault.

import { events, get } from "./api.js";
import { badge, button, changed, check, copy, dim, download, field, form, h, onChange, onInput, put, reconcile, select, statusLine, textField, to } from "./dom.js";
import { clock, count, sessionId, visible } from "./words.js";
import { definitions, sessionLink, znodeLink } from "./znode.js";

const KEPT = 5000; // lines in memory
const DRAWN = 400; // lines on the page
const RATE = 800; // entries in a second: to show them takes the server 3 % of its time at most
const PAST = 300; // entries of the history, if there is one
const SIGNS = { request: "→", reply: "←", event: "⚡", session: "●", connection: "○", fault: "✗", hold: "‖", control: "⚙", reaper: "♻", note: "✎", lost: "…" };
const GROUPS = [["request", "Requests"], ["event", "Watch events"], ["session", "Sessions"], ["fault", "Faults and holds"], ["control", "Controls and notes"]];
const GROUP_OF = { reply: "request", connection: "session", hold: "fault", reaper: "control", note: "control", lost: "request" };

export function open(place, params) {
  let kept = [];
  let waiting = new Map(); // requests without a reply, by connection and xid
  let control = null;
  let paused = false;
  let missed = 0;
  let selected = null;
  let number = 0;
  let due = false;

  const op = textField("op", "create,delete");
  const path = textField("path", "/locks/**");
  const session = textField("session", "id, name or address");
  const text = textField("text", "any text", { type: "search" });
  const outcome = select("outcome", [["", "any result"], ["failed", "only errors"], ["slow", "10 ms and more"]]);
  const boxes = GROUPS.map(([id, word]) => [id, check(word, true)]);
  const fold = check("Fold repeats", true);
  const state = statusLine();
  const list = h("ol.events.mono", { tabindex: "0", "aria-label": "What has happened" });
  const detail = h("article.detail", { "aria-label": "The whole request", hidden: true });
  const hold = button("Pause", () => {
    paused = !paused;
    hold.textContent = paused ? "Go on" : "Pause";
    hold.ariaPressed = paused;
    if (!paused) missed = 0;
    draw();
  });
  put(place,
    form("bar filters", () => follow(),
      field("Operation", op), field("Path", path), field("Session", session), field("Text", text), field("Result", outcome)),
    h("div.bar", boxes.map(([, box]) => box), fold,
      h("span.grow"), hold, button("Clear", () => { kept = []; waiting.clear(); draw(); }),
      button("Copy", () => copy(exported(), "The lines are copied")), button("Export", () => download("timeline.txt", [exported()], "text/plain"))),
    state,
    h("div.split.wide", h("div.pane", list), detail));
  onChange(() => {
    const given = { op: op.value, path: path.value, session: session.value };
    history.replaceState(null, "", to("timeline", Object.fromEntries(Object.entries(given).filter(([, value]) => value))));
    document.dispatchEvent(new Event("where"));
    follow();
  }, op, path, session);
  onChange(draw, outcome, fold, ...boxes.map(([, box]) => box));
  onInput(draw, text);

  // --- the names of sessions ---

  const names = new Map();
  let looked = -Infinity;
  const nameOf = (id) => visible(names.get(sessionId(id)) ?? sessionId(id));

  let records = true;

  async function refresh(figures) {
    if (figures && figures.records !== records) {
      records = figures.records;
      soon();
    }
    if (performance.now() - looked < 2000) return;
    looked = performance.now();
    for (const one of (await get("/clients", { limit: 1000 })).clients) {
      if (!one.name || names.get(sessionId(one.id)) === one.name) continue;
      names.set(sessionId(one.id), one.name);
      soon();
    }
  }

  // --- what comes in ---

  async function follow() {
    control?.abort();
    control = new AbortController();
    const { signal } = control;
    kept = [];
    waiting = new Map();
    draw();
    for (let wait = 300; !signal.aborted; wait = Math.min(wait * 2, 5000)) {
      try {
        const query = { format: "json", rate: RATE, past: kept.length ? 0 : PAST, op: op.value.replace(/\s/g, ""), path: path.value, session: session.value };
        for await (const batch of events("/trace", query, signal, () => { wait = 300; state.textContent = "following"; })) {
          for (const entry of batch) add(entry);
          if (batch.length) soon();
        }
      } catch (error) {
        if (signal.aborted) return;
        state.textContent = error.status ? error.message : "the server is gone: trying again";
        if (error.status === 400) return;
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  function add(entry) {
    const key = `${entry.connection} ${entry.xid}`;
    if (entry.kind === "reply" && waiting.has(key)) {
      const row = waiting.get(key);
      waiting.delete(key);
      row.reply = entry;
      return;
    }
    const row = { number: ++number, entry, reply: entry.kind === "reply" ? entry : null, at: Date.parse(entry.time) };
    if (entry.kind === "lost") waiting.clear();
    if (entry.kind === "request") {
      waiting.set(key, row);
      if (waiting.size > KEPT) waiting.delete(waiting.keys().next().value);
    }
    kept.push(row);
    if (paused) missed++;
    if (kept.length > KEPT + 500) kept = kept.slice(-KEPT);
  }

  function soon() {
    if (due || (paused && missed)) {
      if (paused) state.textContent = `paused; ${count(missed)} new lines`;
      return;
    }
    due = true;
    setTimeout(() => { due = false; draw(); }, 120);
  }

  // --- what is shown ---

  function chosen() {
    const groups = new Set(boxes.filter(([, box]) => box.control.checked).map(([id]) => id));
    const wanted = text.value.toLowerCase();
    return kept.filter((row) => {
      const { entry, reply } = row;
      if (!groups.has(GROUP_OF[entry.kind] ?? entry.kind)) return false;
      if (outcome.value === "failed" && !(reply?.error || entry.kind === "fault")) return false;
      if (outcome.value === "slow" && !(reply?.latency_ms >= 10)) return false;
      return !wanted || `${entry.text} ${reply?.text ?? ""} ${entry.session ?? ""} ${entry.client ?? ""}`.toLowerCase().includes(wanted);
    });
  }

  const isRepeat = (row, other) => Boolean(row.reply && other.reply) && row.entry.kind === "request" && row.entry.session === other.entry.session &&
    row.entry.text === other.entry.text && row.reply.text === other.reply.text;

  /** The lines: of equal requests in turn, with equal answers, the last one. */
  function folded(rows) {
    const lines = [];
    for (const row of rows) {
      const before = lines.at(-1);
      if (before && fold.control.checked && isRepeat(before.row, row)) Object.assign(before, { row, times: before.times + 1 });
      else lines.push({ key: row.number, row, times: 1 });
    }
    return lines;
  }

  function draw() {
    if (paused && missed) return;
    const rows = chosen();
    const lines = folded(rows);
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    const wanted = lines.slice(-DRAWN);
    reconcile(list, wanted, (line) => line.key, make, update);
    if (atEnd) list.scrollTop = list.scrollHeight;
    const cut = lines.length > wanted.length ? `, the last ${count(wanted.length)} shown` : "";
    state.textContent = rows.length ? `${count(rows.length)} lines${cut}` : `Nothing has happened ${records ? "yet" : "since this page was opened; what was before is not recorded"}. Use your application: its requests appear here.`;
    const row = lines.find(({ key }) => key === selected)?.row;
    if (row && changed(detail, [selected, row.reply])) show(row);
  }

  /** To ask whether something is there, and hear that it is not, is no failure. */
  const isAbsence = ({ entry, reply }) => /^exists/.test(reply?.op ?? entry.op ?? "") && /NoNode/.test(String(reply?.error ?? ""));

  const make = ({ key }) => h("li", { on: { click: () => choose(key) } });

  function update(element, { key, row, times }) {
    const { entry, reply } = row;
    const who = entry.session ? nameOf(entry.session) : entry.client ?? "";
    const bad = (reply?.error && !isAbsence(row)) || entry.kind === "fault";
    element.className = `event ${entry.kind} ${bad ? "failed" : isAbsence(row) ? "absent" : ""} ${key === selected ? "selected" : ""}`;
    if (!changed(element, [who, reply, times])) return;
    put(element,
      dim(Number.isNaN(row.at) ? "" : clock(row.at)), h("span.who", { title: entry.client ?? "" }, who),
      h("span.sign", { "aria-label": entry.kind }, SIGNS[entry.kind] ?? ""),
      h("span.what", h("button.bare", { type: "button" }, visible(entry.kind === "reply" ? `${entry.op ?? ""} ${entry.path ?? ""}` : entry.text ?? "")),
        reply && h("span", { class: `result ${bad ? "bad" : ""}` }, ` → ${visible(reply.text ?? "")}`)),
      times > 1 ? h("span.num", { title: "so often in turn" }, `×${count(times)}`) : h("span.num.dim", reply?.latency_ms === undefined ? "" : `${reply.latency_ms.toFixed(reply.latency_ms < 10 ? 2 : 0)} ms`));
  }

  function choose(key) {
    selected = key;
    detail.hidden = !key;
    const line = folded(chosen()).find((one) => one.key === key);
    if (line) show(line.row);
    draw();
  }

  function show(row) {
    const { entry, reply } = row;
    const facts = [["Time", Number.isNaN(row.at) ? "" : `${clock(row.at)} (${entry.time})`], ["Client", entry.client ?? "–"],
      ["Session", entry.session ? sessionLink({ id: entry.session, name: nameOf(entry.session) }) : "–"],
      ["Connection", entry.connection ?? "–"]];
    if (entry.xid) facts.push(["xid", entry.xid]);
    const paths = entry.paths ?? (entry.path ? [entry.path] : []);
    if (paths.length) facts.push([paths.length > 1 ? "Paths" : "Path", h("ul.plain", paths.map((one) => h("li", znodeLink(one))))]);
    if (entry.kind !== "reply") facts.push([entry.kind === "request" ? "Request" : "What", h("pre", visible(entry.text ?? "", 20000))]);
    if (reply) {
      facts.push(["Reply", [reply.error ? badge(reply.error, "bad") : badge("ok", "good"), h("pre", visible(reply.text ?? "", 20000))]]);
      if (reply.reason) facts.push(["Why", visible(reply.reason, 1000)]);
      facts.push(["Latency", reply.latency_ms === undefined ? "not known: the request is older than this page" : `${reply.latency_ms} ms`]);
    } else if (entry.kind === "request") facts.push(["Reply", "none yet"]);
    if ((reply ?? entry).zxid) facts.push(["zxid", (reply ?? entry).zxid]);
    put(detail, h("div.bar", h("h1", `${SIGNS[entry.kind] ?? ""} ${entry.op ?? entry.kind}`), h("span.grow"),
      button("Copy", () => copy(asText(row), "The line is copied")),
      button("✕", () => choose(), { "aria-label": "Close", class: "quiet" })), definitions(facts));
  }

  function asText({ entry, reply }) {
    const who = `${(entry.client ?? "-").padEnd(21)} ${(entry.session ?? "-").padEnd(18)}`;
    const said = visible(entry.kind === "reply" ? `${entry.op} ${entry.path ?? ""}` : entry.text ?? "", 5000);
    const more = reply ? [` -> ${visible(reply.text ?? "", 5000)}`, reply.zxid && `zxid ${reply.zxid}`,
      reply.latency_ms !== undefined && `${reply.latency_ms} ms`, reply.reason && `(${visible(reply.reason, 500)})`] : [];
    return `${entry.time ?? ""} ${who} ${entry.kind.padEnd(7)} ${said}${more.filter(Boolean).join("  ")}`;
  }

  const exported = () => `${chosen().map(asText).join("\n")}\n`;

  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const lines = folded(chosen()).slice(-DRAWN);
    const at = lines.findIndex(({ key }) => key === selected);
    const line = lines[at < 0 ? lines.length - 1 : Math.min(Math.max(at + step, 0), lines.length - 1)];
    if (!line) return;
    choose(line.key);
    const element = list.keyed.get(line.key);
    element.querySelector("button").focus({ preventScroll: true });
    element.scrollIntoView({ block: "nearest" });
  });

  function go(given) {
    op.value = given.op ?? "";
    path.value = given.path ?? "";
    session.value = given.session ?? "";
    follow();
  }
  go(params);
  return { go, refresh, close: () => control?.abort() };
}
