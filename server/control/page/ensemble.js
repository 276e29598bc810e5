// The servers of a pretend ensemble: who leads, how far each has come, what is cut; and what can be done to them.

import { get, post } from "./api.js";
import { badge, changed, dim, doing, h, put, reconcile, statusLine } from "./dom.js";
import { count, plural } from "./words.js";
import { definitions } from "./znode.js";

const COLOURS = { leader: "good", follower: "shape", observer: "shape" };

export function open(place) {
  const state = statusLine();
  const bar = h("div.bar");
  const cards = h("div.cards");
  put(place, state);

  const verb = (word, name, body, props) => doing(word, () => post(`/ensemble/${name}`, body), "", props);

  /** A button for trouble that is not there, and one that ends it. */
  const either = (is, begin, end, off) => is ? verb(...end, { class: "primary" }) : verb(...begin, { disabled: off });

  function update(element, one) {
    if (!changed(element, one)) return;
    const { server, role, troubles } = one;
    const [down, own, leads] = [role === "down", server === one.own, role === "leader"];
    const lags = troubles.includes("lags");
    put(element,
      h("header", h("h2", `Server ${server}`), badge(role, COLOURS[role] ?? "bad"), troubles.filter((trouble) => trouble !== "cut off").map((trouble) => badge(trouble, "warn")),
        h("span.grow"), own ? badge("this page") : down ? null : h("a", { href: `${location.protocol}//${location.hostname}:${one.at}/#ensemble` }, "Its page")),
      definitions([
        ["Clients", [h("span.mono", one.hosts), ` ${plural(one.connections, "connection")} `, one.outstanding ? badge(`${plural(one.outstanding, "request")} waiting`, "warn") : null]],
        ["Position", [h("span.mono", one.zxid), one.behind ? [" ", badge(`${plural(one.behind, "entry", "entries")} behind`, "warn")] : null, dim(`epoch ${one.epoch}`)]],
        ["Links", one.cuts.length ? one.cuts.map((cut) => badge(`to ${cut.server} cut ${cut.silent ? "silently" : "by reset"}`, "bad")) : "to all others"],
      ]),
      h("div.bar",
        down ? verb("Start", "start", { server }, { class: "primary" }) : verb("Kill", "kill", { server }, { class: "danger" }),
        either(one.cuts.length, ["Isolate", "isolate", { server }], ["Heal", "heal", { servers: [server] }]),
        either(lags, ["Lag", "lag", { server }], ["Catch up", "catch_up", { servers: [server] }], down),
        either(troubles.includes("frozen"), ["Freeze", "freeze", { server }], ["Thaw", "thaw", { server }], down),
        one.votes && !leads ? verb("Elect", "elect", { to: server }, { disabled: down }) : null));
  }

  async function refresh(figures) {
    if (!figures) return;
    if (!figures.server) {
      put(place, h("div.empty", h("h1", "This is a single server"),
        h("p", "A pretend ensemble has several, which lag, are cut off, die and change their leader on command:"),
        h("pre", "pyzk-server --ensemble 3 --observers 1"), h("p", "In Python tests it is EmbeddedEnsemble(3).")));
      return;
    }
    const found = await get("/ensemble");
    if (!bar.isConnected) put(place, state, bar, cards);
    state.textContent = found.leader ? `Server ${found.leader} leads ${count(found.servers.length)} servers.` : "Nobody leads: no quorum, or an election is under way.";
    if (changed(bar, found.holding)) {
      put(bar, verb("Elect another", "elect"), verb("Heal all", "heal"), verb("Catch up", "catch_up"), verb("Restart all in turn", "roll"),
        found.holding ? verb(`Release ${found.holding}`, "release_acks", {}, { class: "primary" })
          : [verb("Hold proposals", "hold_proposals", {}, { title: "no server but the leader gets new writes" }),
            verb("Hold acks", "hold_acks", {}, { title: "all servers log new writes, and none applies them" })]);
    }
    const port = location.protocol === "https:" ? "secure_port" : "port";
    for (const one of found.servers) Object.assign(one, { own: found.server, at: one[port] });
    reconcile(cards, found.servers, (one) => one.server, (one) => h("article.card", { "aria-label": `Server ${one.server}` }), update);
  }
  return { refresh };
}
