// What stands between clients and the server: faults, holds; and the server's time.

import { get, post, remove } from "./api.js";
import { act, badge, button, check, copy, dim, doing, eachSecond, field, form, h, onChange, put, reconcile, select, statusLine, submit, textField } from "./dom.js";
import { count, duration, plural, sessionId, visible } from "./words.js";
import { endpointBadges } from "./znode.js";

export function open(place) {
  // --- time ---

  const time = h("output.time.mono", { "aria-label": "The server's time, in seconds since its start" });
  const frozen = doing("Freeze", () => post(`/clock/${frozen.dataset.act}`), "", { hidden: true, disabled: true });
  const number = (name, value, props) => h("input", { type: "number", name, min: "1", value, ...props });
  const seconds = number("seconds", "10", { min: "0", step: "any", required: true });
  const alive = check("connected clients stay alive", true);
  const clock = h("section.card", h("h2", "Time"), h("div.bar", time, frozen),
    form("bar", () => act(() => post("/clock/advance", { seconds: Number(seconds.value), keep_alive: alive.control.checked }), `Time has moved by ${seconds.value} s`),
      field("Seconds", seconds), submit("Advance"), alive),
    h("p.dim", "Sessions, TTL znodes and containers follow this clock. Without “stay alive”, sessions whose timeout passes expire."));

  // --- faults ---

  const matching = () => [field("Operation", textField("op", "any, or create")), field("Path", textField("path", "any, or /locks/**")), field("Session", textField("session", "any"))];
  const action = select("action", [["disconnect", "cut the connection"], ["drop_reply", "lose it, and go silent"], ["error", "answer an error"], ["delay", "delay it"]]);
  const error = field("Error", textField("error", "NoNode or -101"));
  const delay = field("Seconds", number("seconds", "1", { min: "0", step: "any" }));
  const adapt = () => {
    error.hidden = action.value !== "error";
    delay.hidden = action.value !== "delay";
  };
  onChange(adapt, action);
  adapt();
  const faults = h("ul.armed", { "aria-label": "Faults that are armed" });
  const looking = statusLine();
  const values = (filled) => {
    const given = Object.fromEntries([...new FormData(filled)].filter(([, value]) => value !== ""));
    if (given.op) given.op = given.op.split(/[\s,]+/).filter(Boolean);
    return given;
  };
  const plan = (filled) => {
    const given = values(filled);
    given.nth = Number(given.nth ?? 1);
    given.times = given.times ? Number(given.times) : null;
    if (given.action === "delay") given.seconds = Number(given.seconds);
    else delete given.seconds;
    if (given.action !== "error") delete given.error;
    else if (/^-?\d+$/.test(given.error ?? "")) given.error = Number(given.error);
    return act(() => post("/faults", given), "The fault is armed");
  };
  const faultCard = h("section.card", h("h2", "Faults"), looking, faults,
    form("bar filters", plan, matching(),
      field("When", select("when", [["before", "before it is applied"], ["after", "after it is applied"]])), field("Then", action), error, delay,
      field("From the nth", number("nth", "1")), field("Times (empty: all)", number("times", "1")), submit("Arm")));

  // --- holds ---

  const holds = h("ul.armed");
  const held = h("ul.armed");
  const holdCard = h("section.card", h("h2", "Held messages"), holds, held,
    h("div.bar", doing("Release all", () => post("/held/release")), doing("End all holds", () => remove("/holds"))),
    form("bar filters", (filled) => act(() => post("/holds", values(filled)), "Such messages are held from now on"),
      field("Hold each", select("kind", [["request"], ["reply"], ["event"], ["handshake"]])), matching(), submit("Hold")));

  // --- endpoints ---

  const endpoints = h("ul.armed", { "aria-label": "Endpoints" });
  const named = textField("name", "worker-1", { required: true });
  const late = number("seconds", "0.5", { min: "0", step: "any", required: true });
  const endpointCard = h("section.card", h("h2", "Endpoints"), endpoints,
    form("bar", () => act(() => post("/endpoints", { name: named.value }).then(() => { named.value = ""; }), "The endpoint listens"),
      field("Name", named), submit("Make")),
    h("div.bar", field("Seconds of each delay", late)),
    h("p.dim", "An endpoint is one more address, for one program: a cut lasts, however often the program connects again."));
  const one = (name, verb, body) => () => post(`/endpoints/${encodeURIComponent(name)}/${verb}`, body);

  put(place, h("div.cards", clock, h("section.card", h("h2", "The whole server"), h("div.bar",
    [["Pause", "/server/pause"], ["Resume", "/server/resume"], ["Refuse connections", "/connections/refuse"], ["Accept connections", "/connections/accept"]]
      .map(([word, route]) => doing(word, () => post(route))),
    doing("Disconnect everybody", () => post("/connections/disconnect"), "All connections are cut", { class: "danger" })),
  h("p.dim", "A paused server reads and sends nothing. This page still reaches it.")), faultCard, holdCard, endpointCard));

  const row = () => h("li");
  const words = (fault) => h("span.mono.grow", visible(fault.replace(/^<|, fired \d+ of \d+>$|>$/g, "")));

  async function refresh() {
    const found = await get("/armed");
    time.textContent = `${found.seconds.toFixed(3)} s`;
    frozen.textContent = found.frozen ? "Unfreeze" : "Freeze";
    frozen.hidden = frozen.disabled = false;
    looking.remove();
    frozen.dataset.act = found.frozen ? "unfreeze" : "freeze";
    reconcile(faults, [...found.faults, ...found.chaos, ...found.others], (one) => one.fault ?? one.chaos ?? one.text, row, (element, one) => put(element,
      words(one.text), one.fault ? badge(`fired ${count(one.fired)} of ${count(one.seen)}`, one.fired ? "bad" : "") : null, badge(one.by),
      one.fault ? doing("Disarm", () => remove(`/faults/${one.fault}`), "Disarmed", { class: "quiet" }) : null,
      one.chaos ? doing("End", () => remove(`/chaos/${one.chaos}`), "The chaos is over", { class: "quiet" }) : null));
    reconcile(endpoints, found.endpoints, (point) => point.endpoint, row, (element, point) => put(element,
      h("span.grow", h("b", visible(point.endpoint)), " ", h("span.mono", point.hosts)), h("span.dim", plural(point.connections, "connection")), endpointBadges(point),
      h("span.whole",
        button("Copy", () => copy(point.hosts, "The address is copied"), { class: "quiet" }),
        point.cut ? null : doing("Cut", one(point.endpoint, "cut"), `${point.endpoint} is cut off`, { class: "quiet danger" }),
        point.paused ? null : doing("Pause", one(point.endpoint, "pause"), "", { class: "quiet" }),
        doing("Delay", () => one(point.endpoint, "delay", { seconds: Number(late.value) })(), "", { class: "quiet" }),
        point.cut || point.paused || point.delay ? doing("Resume", one(point.endpoint, "resume"), "", { class: "quiet" }) : null)));
    for (const list of [faults, holds, endpoints]) list.classList.toggle("none", !list.firstChild);
    reconcile(holds, found.holds, (one) => one.hold, row, (element, one) => put(element, h("span.grow", `Hold ${one.hold}: `, h("span.mono", visible(one.text))), badge(one.by),
      doing("End", () => remove(`/holds/${one.hold}`), "", { class: "quiet" })));
    reconcile(held, found.held, (one) => one.number, row, (element, one) => put(element,
      badge(one.kind), h("span.mono.grow", visible(one.text ?? `${one.op ?? ""} ${one.path ?? ""}`)),
      h("span.dim.mono", one.session ? sessionId(one.session) : ""), h("span.num.dim", duration(1000 * Math.max(0, found.seconds - one.time))),
      doing("Release", () => post("/held/release", { messages: [one.number] }), "", { class: "quiet" }),
      doing("Lose", () => post("/held/lose", { messages: [one.number] }), "The message is lost", { class: "quiet danger" })));
  }

  return { refresh, close: eachSecond() };
}
