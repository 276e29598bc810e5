// The first view: what needs attention, and where things stand.

import { get } from "./api.js";
import { contention } from "./contention.js";
import { badge, changed, dim, eachSecond, h, put } from "./dom.js";
import { bytes, count, duration, plural, serverNow, visible } from "./words.js";
import { definitions, sessionLink, znodeLink } from "./znode.js";

export function open(place) {
  const alarms = h("section.card.alarms", { "aria-label": "What needs attention", role: "status" }, dim("looking …"));
  const server = h("section.card");
  const clients = h("section.card");
  const locks = h("section.card");
  const trouble = h("section.card");
  put(place, alarms, h("div.cards", server, clients, locks, trouble));
  let findings = null;
  let next = 0;

  const link = (view, text) => h("a", { href: `#${view}` }, text);

  function attention(figures, { cycles }) {
    const found = cycles.map((cycle) => [badge("deadlock", "bad"), cycle.map((step, at) => [at ? " and " : "", sessionLink(step.session)]), " wait for each other: ", link("locks", "Locks")]);
    if (figures.paused) found.push([badge("paused", "warn"), "The server reads and sends nothing: ", link("faults", "Faults and time")]);
    if (figures.refusing) found.push([badge("refuses", "warn"), "The server refuses connections: ", link("faults", "Faults and time")]);
    if (figures.frozen) found.push([badge("frozen", "warn"), "The server's time does not pass: ", link("faults", "Faults and time")]);
    const armed = figures.faults + figures.holds;
    if (armed) found.push([badge(`${count(armed)} armed`, "warn"), `Faults and holds for requests, replies and events, ${figures.fired ? `fired ${plural(figures.fired, "time")}` : "not fired yet"}: `, link("faults", "Faults and time")]);
    if (figures.cut_off) found.push([badge(`${count(figures.cut_off)} paused`, "warn"), "The server reads nothing from these clients: ", link("sessions", "Sessions")]);
    if (figures.cut_endpoints) found.push([badge(`${plural(figures.cut_endpoints, "endpoint")} cut off`, "warn"), "The server reads nothing from their clients: ", link("faults", "Faults and time")]);
    if (figures.server && figures.role === "leader election") found.push([badge("no leader", "bad"), link("ensemble", "Ensemble")]);
    if (findings) found.push([badge(plural(findings, "finding"), "warn"), "Clients do what they should not: ", link("advice", "Advice")]);
    return found;
  }

  const since = (ms) => h("span.num", { "data-since": ms }, duration(Math.max(0, serverNow() - ms)));

  function drawLocks({ used, cycles, waits }) {
    put(locks, h("h2", "Locks"), definitions([
      ["In use", link("locks", plural(used, "directory", "directories"))],
      ["Deadlocks", cycles.length ? badge(count(cycles.length), "bad") : "none"],
    ]), h("h3", "Longest waits"), waits.length ? h("ul.plain", waits.map((one) => h("li",
      since(one.since), " ", one.session ? sessionLink(one.session) : dim("no session"), " at ", znodeLink(one.path),
      one.holders.length ? [" for ", one.holders.slice(0, 3).map((holder, at) => [at ? ", " : "", holder.session ? sessionLink(holder.session) : dim("no session")])] : null)))
      : dim("Nobody waits."));
  }

  async function advise(figures) {
    if (!figures.records) findings = null;
    else if (performance.now() >= next) {
      const began = performance.now();
      const query = figures.whole ? {} : { begin: false };
      findings = (await get(figures.server ? "/ensemble/advice" : "/advice", query)).findings.length;
      const now = performance.now();
      next = now + Math.max(2000, 100 * (now - began));
    }
  }

  function history({ whole, records }) {
    if (!records) return "not recorded: the timeline begins when it is opened";
    return whole ? link("timeline", "recorded") : [link("timeline", "the latest is recorded"), dim("while little comes")];
  }

  async function refresh(figures) {
    if (!figures) return;
    const up = definitions([
      ["Address", h("span.mono", visible(figures.hosts))],
      ["Release", [`pyzk-server ${figures.version}`, dim(`answers as ZooKeeper ${figures.emulates}`)]],
      ["Up for", duration(1000 * figures.seconds)],
      ...(figures.server ? [["In the ensemble", link("ensemble", `server ${figures.server}: ${figures.role}`)]] : []),
      ["Znodes", [link("tree", count(figures.znodes)), dim(bytes(figures.bytes))]],
      ["History", history(figures)],
    ]);
    put(server, h("h2", "Server"), up);
    if (changed(clients, [figures.sessions, figures.connections, figures.expired, figures.watches])) {
      put(clients, h("h2", "Clients"), definitions([
        ["Sessions", link("sessions", count(figures.sessions))],
        ["Connections", count(figures.connections)],
        ["Expired", [figures.expired ? badge(count(figures.expired), "warn") : "none", dim("sessions, since the start")]],
        ["Watches", link("watches", count(figures.watches))],
      ]));
    }
    const found = await contention(figures);
    if (changed(locks, [found.used, found.cycles, found.waits])) drawLocks(found);
    for (const time of locks.querySelectorAll("[data-since]")) time.textContent = duration(Math.max(0, serverNow() - Number(time.dataset.since)));
    await advise(figures);
    if (changed(trouble, [figures.faults, figures.holds, figures.held, findings])) {
      put(trouble, h("h2", "Faults and advice"), definitions([
        ["Faults", figures.faults ? link("faults", `${count(figures.faults)} armed`) : "none is armed"],
        ["Holds", figures.holds ? link("faults", `${plural(figures.holds, "hold")}, ${plural(figures.held, "message")} held`) : "none"],
        ["Advice", findings === null ? link("advice", "not looked for") : findings ? link("advice", plural(findings, "finding")) : "none"],
      ]));
    }
    const wrong = attention(figures, found);
    if (changed(alarms, [wrong.length, found.cycles, figures.fired, findings, figures.faults, figures.holds, figures.cut_off, figures.frozen, figures.paused])) {
      alarms.classList.toggle("calm", !wrong.length);
      put(alarms, wrong.length ? h("ul.plain", wrong.map((one) => h("li", one)))
        : [badge("all is well", "good"), dim(" No deadlock, no fault, nobody is cut off.")]);
    }
  }
  return { refresh, close: eachSecond() };
}
