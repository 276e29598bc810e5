// The frame of the page: the views, the state of the server, the colours.

import { events, Gone, Refused, setToken } from "./api.js";
import { contention } from "./contention.js";
import { ask, badge, changed, field, h, put, toast } from "./dom.js";
import { shellPart } from "./shell.js";
import * as tree from "./tree.js";
import { count, setServerTime } from "./words.js";

const VIEWS = [
  ["overview", "Overview"], ["tree", "Tree", "znodes"], ["sessions", "Sessions"], ["locks", "Locks"], ["timeline", "Timeline"],
  ["watches", "Watches", "watches"], ["faults", "Faults and time"], ["advice", "Advice"], ["ensemble", "Ensemble"],
];
const LOCKS = 1000; // ms between two questions whether locks are to be looked at again
const SILENCE = 12000; // ms without a word from the server, which says something every 5 s
const RETRY = [300, 600, 1200, 2500, 5000]; // ms

const byId = (id) => document.getElementById(id);
const main = byId("main");
let view = null;
let name = "";
let figures = null;

// --- views ---

const links = new Map(VIEWS.map(([id, title]) => {
  const number = h("span.number");
  const link = h("a", { href: `#${id}` }, title, number);
  byId("views").append(link);
  return [id, { link, number }];
}));

function route() {
  const [id, query = ""] = location.hash.slice(1).split("?");
  return { id: links.has(id) ? id : "overview", params: Object.fromEntries(new URLSearchParams(query)) };
}

const shell = shellPart();

async function show() {
  const { id, params } = route();
  if (location.hash === "#main") return;
  shell.draw(id, params);
  if (id === name && view?.go) {
    view.go(params);
    return;
  }
  view?.close?.();
  view = null;
  name = id;
  for (const [other, { link }] of links) link.ariaCurrent = other === id ? "page" : null;
  const title = VIEWS.find(([other]) => other === id)[1];
  document.title = `${title} – pyzk-server`;
  put(main, h("p.empty", { role: "status" }, "loading …"));
  const module = await (id === "tree" ? tree : import(`./${id}.js`)); // the tree asks before the first paint
  if (name !== id || view) return;
  const place = h("section", { class: `view ${id}`, "aria-label": title });
  put(main, h("h1.unseen", title), place, shell.part);
  view = module.open(place, params);
  look();
}

let running = false;
let again = false;
let wake = () => {};

/** Have the view look again: at most twice a second, and seldom if it takes long. */
async function refresh() {
  if (running) {
    again = true;
    return;
  }
  running = true;
  do {
    again = false;
    const shown = view;
    const started = performance.now();
    if (shown?.refresh && !document.hidden) {
      try {
        await shown.refresh(figures);
      } catch (error) {
        if (error.status === 401) askToken(error.message);
        else unlessLost(error);
      }
    }
    const took = performance.now() - started;
    const pause = Math.max(400, Math.min(33 * took, took < 1000 ? 2000 : 10000)); // a busy machine is slow too
    if (view === shown) await new Promise((resolve) => setTimeout((wake = resolve), pause));
  } while (again);
  running = false;
}

/** Have it look at once. */
function look() {
  refresh();
  wake();
}

/** What a click has asked for, and the server has refused or not answered. */
addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Refused || event.reason instanceof Gone)) return;
  event.preventDefault();
  if (event.reason.status === 401) askToken(event.reason.message);
  else toast(event.reason.message, "bad");
});
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", look);
document.addEventListener("look", look);
document.addEventListener("tick", () => refresh());
document.addEventListener("where", () => {
  const { id, params } = route();
  shell.draw(id, params);
});

// --- the state of the server ---

function setStatus(kind, text) {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = `pill ${kind}`;
  document.body.classList.toggle("gone", kind === "bad");
}

const rate = { requests: 0, at: 0, now: 0 };

function tell(found) {
  const at = performance.now();
  if (rate.at && found.requests >= rate.requests) {
    rate.now = (1000 * (found.requests - rate.requests)) / Math.max(at - rate.at, 1);
  }
  Object.assign(rate, { requests: found.requests, at });
  figures = { ...found, };
  setServerTime(found.wall_ms);
  byId("host").textContent = found.hosts + (found.server ? `, server ${found.server}: ${found.role}` : "");
  const state = found.paused ? "paused" : found.frozen ? "time is frozen" : found.refusing ? "refuses connections" : "live";
  setStatus(state === "live" ? "good" : "warn", state);
  put(byId("figures"), [
    ["requests/s", rate.now < 10 ? rate.now.toFixed(1) : count(Math.round(rate.now))],
    ["connections", count(found.connections)],
    ["zxid", found.zxid],
  ].map(([word, value]) => h("div", h("dt", word), h("dd", value))));
  for (const [id, , key] of VIEWS) {
    if (key) links.get(id).number.textContent = figures[key] ? `\u00a0${count(figures[key])}` : "";
  }
  const armed = found.faults + found.holds;
  mark("faults", armed ? `${count(armed)} armed` : "", [found.cut_endpoints && `${count(found.cut_endpoints)} cut off`, found.paused && "paused", found.refusing && "refuses", found.frozen && "frozen"]);
  mark("sessions", found.sessions ? count(found.sessions) : "", [found.cut_off && `${count(found.cut_off)} paused`]);
  refresh();
}

setInterval(() => {
  if (figures && !document.hidden && !document.body.classList.contains("gone")) contention(figures).catch(unlessLost);
}, LOCKS);

/** What stands at the tab of a view: a number, and what is wrong. */
function mark(id, number, wrong, kind = "warn") {
  const place = links.get(id).number;
  const words = wrong.filter(Boolean);
  if (changed(place, [number, words])) put(place, number && `\u00a0${number}`, words.map((word) => [" ", badge(word, kind)]));
}

document.addEventListener("locks", ({ detail: { used, cycles } }) =>
  mark("locks", used ? count(used) : "", [cycles.length && (cycles.length > 1 ? `${count(cycles.length)} deadlocks` : "1 deadlock")], "bad"));

function unlessLost(error) {
  if (!(error instanceof Refused || error instanceof Gone)) reportError(error);
}

async function follow() {
  for (let failures = 0; ; failures++) {
    const control = new AbortController();
    let watchdog = 0;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => control.abort(), SILENCE);
    };
    try {
      alive();
      for await (const found of events("/live", {}, control.signal, () => { failures = 0; })) {
        alive();
        notice("");
        if (found.length) tell(found.at(-1));
      }
    } catch (error) {
      if (error instanceof Refused) {
        setStatus("bad", "refused");
        notice(error.message);
        if (error.status === 401) await askToken(error.message);
      }
    }
    clearTimeout(watchdog);
    if (byId("status").textContent !== "refused") setStatus("bad", "gone: trying again");
    await new Promise((resolve) => setTimeout(resolve, RETRY[Math.min(failures, RETRY.length - 1)]));
  }
}

function notice(text) {
  byId("notice").hidden = !text;
  byId("notice").textContent = text;
}

let asking = null;

function askToken(reason) {
  asking ??= new Promise((resolve) => {
    const input = h("input", { type: "password", name: "token", autocomplete: "off", required: true });
    const dialog = ask("This server wants a token", [h("p", reason), field("control.token", input)], "Use it", async () => setToken(input.value));
    dialog.addEventListener("close", () => {
      asking = null;
      resolve();
    });
  });
  return asking;
}

// --- colours ---

const button = byId("theme");
const THEMES = [["", "◐", "as the system"], ["light", "☀", "light"], ["dark", "☾", "dark"]];
let theme = THEMES.find(([value]) => value === (localStorage.getItem("theme") ?? "")) ?? THEMES[0];

function paint() {
  const [value, sign, words] = theme;
  document.documentElement.dataset.theme = value;
  button.textContent = sign;
  button.ariaLabel = button.title = `Colours: ${words}`;
}

button.addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem("theme", theme[0]);
  paint();
});

paint();
show();
follow();
