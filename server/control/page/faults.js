// What stands between clients and the server: faults, holds; and the server's time.

import { get, post, remove } from "./api.js";
import { attempt, badge, button, field, h, put, reconcile, select } from "./dom.js";
import { count, duration, sessionId, visible } from "./words.js";

export function open(place) {
  const again = () => document.dispatchEvent(new Event("acted"));
  const act = (work, done) => attempt(async () => { await work(); await refresh(); }, done).then(again);

  // --- time ---

  const time = h("output", { class: "time mono", "aria-label": "The server's time, in seconds since its start" });
  const frozen = button("Freeze", () => act(() => post(`/clock/${frozen.dataset.act}`)), { disabled: true });
  const seconds = h("input", { type: "number", name: "seconds", min: "0", step: "any", value: "10", required: true });
  const alive = h("input", { type: "checkbox", checked: true });
  const clock = h("section", { class: "card" }, h("h2", {}, "Time"), h("div", { class: "bar" }, time, frozen),
    h("form", { class: "bar", on: { submit: (event) => { event.preventDefault(); act(() => post("/clock/advance", { seconds: Number(seconds.value), keep_alive: alive.checked }), `Time has moved by ${seconds.value} s`); } } },
      field("Seconds", seconds), h("button", { type: "submit", class: "primary" }, "Advance"),
      h("label", { class: "check" }, alive, "connected clients stay alive")),
    h("p", { class: "dim" }, "Sessions, TTL znodes and containers follow this clock. Without “stay alive”, sessions whose timeout passes expire."));

  // --- faults ---

  const op = () => h("input", { name: "op", placeholder: "any; such as create", spellcheck: "false" });
  const path = () => h("input", { name: "path", class: "mono", placeholder: "any; /locks/**", spellcheck: "false" });
  const session = () => h("input", { name: "session", class: "mono", placeholder: "any", spellcheck: "false" });
  const action = select("action", [["disconnect", "cut the connection"], ["drop_reply", "lose it, and go silent"], ["error", "answer an error"], ["delay", "delay it"]]);
  const error = field("Error", h("input", { name: "error", placeholder: "NoNode or -101" }));
  const delay = field("Seconds", h("input", { name: "seconds", type: "number", min: "0", step: "any", value: "1" }));
  const adapt = () => {
    error.hidden = action.value !== "error";
    delay.hidden = action.value !== "delay";
  };
  action.addEventListener("change", adapt);
  adapt();
  const faults = h("ul", { class: "armed" });
  const values = (form) => Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  const plan = async (event) => {
    event.preventDefault();
    const given = values(event.target);
    given.nth = Number(given.nth ?? 1);
    given.times = given.times ? Number(given.times) : null;
    if (given.action === "delay") given.seconds = Number(given.seconds);
    else delete given.seconds;
    if (given.action !== "error") delete given.error;
    else if (/^-?\d+$/.test(given.error ?? "")) given.error = Number(given.error);
    if (given.op) given.op = given.op.split(/[\s,]+/).filter(Boolean);
    await act(() => post("/faults", given), "The fault is armed");
  };
  const faultCard = h("section", { class: "card" }, h("h2", {}, "Faults"), faults,
    h("form", { class: "bar filters", on: { submit: plan } }, field("Operation", op()), field("Path", path()), field("Session", session()),
      field("When", select("when", [["before", "before it is applied"], ["after", "after it is applied"]])), field("Then", action), error, delay,
      field("From the nth", h("input", { name: "nth", type: "number", min: "1", value: "1" })), field("Times (empty: all)", h("input", { name: "times", type: "number", min: "1", value: "1" })),
      h("button", { type: "submit", class: "primary" }, "Arm")));

  // --- holds ---

  const holds = h("ul", { class: "armed" });
  const held = h("ul", { class: "armed" });
  const holdMore = async (event) => {
    event.preventDefault();
    const given = values(event.target);
    if (given.op) given.op = given.op.split(/[\s,]+/).filter(Boolean);
    await act(() => post("/holds", given), "Such messages are held from now on");
  };
  const holdCard = h("section", { class: "card" }, h("h2", {}, "Held messages"), holds, held,
    h("div", { class: "bar" }, button("Release all", () => act(() => post("/held/release", {}))), button("End all holds", () => act(() => remove("/holds")))),
    h("form", { class: "bar filters", on: { submit: holdMore } },
      field("Hold each", select("kind", [["request"], ["reply"], ["event"], ["handshake"]])), field("Operation", op()), field("Path", path()), field("Session", session()),
      h("button", { type: "submit", class: "primary" }, "Hold")));
  put(place, h("div", { class: "cards two" }, clock, h("section", { class: "card" }, h("h2", {}, "The whole server"), h("div", { class: "bar" },
    button("Pause", () => act(() => post("/server/pause"))), button("Resume", () => act(() => post("/server/resume"))),
    button("Refuse connections", () => act(() => post("/connections/refuse"))), button("Accept connections", () => act(() => post("/connections/accept"))),
    button("Disconnect everybody", () => act(() => post("/connections/disconnect"), "All connections are cut"), { class: "danger" })),
  h("p", { class: "dim" }, "A paused server hears and says nothing. This page still reaches it.")), faultCard, holdCard));

  const row = () => h("li");

  async function refresh() {
    const found = await get("/armed");
    time.textContent = `${found.seconds.toFixed(3)} s`;
    frozen.textContent = found.frozen ? "Unfreeze" : "Freeze";
    frozen.disabled = false;
    frozen.dataset.act = found.frozen ? "unfreeze" : "freeze";
    reconcile(faults, found.faults, (one) => one.fault, row, (element, one) => put(element,
      h("span", { class: "mono grow" }, visible(one.text.replace(/^<Fault |, fired \d+ of \d+>$/g, ""))),
      badge(`fired ${count(one.fired)} of ${count(one.seen)}`, one.fired ? "bad" : ""),
      button("Disarm", () => act(() => remove(`/faults/${one.fault}`), "Disarmed"), { class: "quiet" })));
    faults.classList.toggle("none", !found.faults.length);
    reconcile(holds, found.holds, (one) => one, row, (element, one) => put(element, h("span", { class: "grow" }, `hold ${one}`),
      button("End", () => act(() => remove(`/holds/${one}`)), { class: "quiet" })));
    reconcile(held, found.held, (one) => one.number, row, (element, one) => put(element,
      badge(one.kind), h("span", { class: "mono grow" }, visible(one.text ?? `${one.op ?? ""} ${one.path ?? ""}`)),
      h("span", { class: "dim mono" }, one.session ? sessionId(one.session) : ""), h("span", { class: "num dim" }, duration(1000 * Math.max(0, found.seconds - one.time))),
      button("Release", () => act(() => post("/held/release", { messages: [one.number] })), { class: "quiet" }),
      button("Lose", () => act(() => post("/held/lose", { messages: [one.number] }), "The message is lost"), { class: "quiet danger" })));
  }

  const ticking = setInterval(() => document.dispatchEvent(new Event("tick")), 1000);
  return { refresh, close: () => clearInterval(ticking) };
}
