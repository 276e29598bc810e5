// What can be done to those who hold and wait. Each act asks before, and gives the line of `pyzk` that does the same.

import { get, post, remove, replace } from "./api.js";
import { ask, h, look, toast } from "./dom.js";
import { lineList, pyzk } from "./shell.js";
import { join, plural, sessionId, sessionName, visible } from "./words.js";

const REVOKE = "__REVOKE__";
const CHANGED = -103;

/** End a session as if its timeout had passed. */
export async function expire(session) {
  const id = sessionId(session.id);
  const { ephemerals, name } = await get(`/clients/${encodeURIComponent(session.id)}`);
  ask("Expire a session", [
    h("p", h("b.mono", visible(name ? `${name}, ${id}` : id)), ": its ", plural(ephemerals, "ephemeral"), ` ${ephemerals === 1 ? "is" : "are"} deleted, and its client is told that the session is gone, as if the timeout had passed.`),
    lineList([pyzk("expire", id)]),
  ], "Expire", () => post(`/sessions/${encodeURIComponent(session.id)}/expire`).then(look), { danger: true });
}

const who = (one) => (one.session ? sessionName(one.session) : "no session");

/** What a refusal of the version means to the one who asks. */
async function checked(work) {
  try {
    await work();
  } catch (error) {
    throw error.code === CHANGED ? new Error("Somebody has changed the znode meanwhile. Cancel, and look again.") : error;
  }
  look();
}

/** Delete the znode by which somebody holds or waits. The client does not notice by itself. */
export function erase(directory, one, holds) {
  const path = join(directory, one.names[0]);
  ask(`Delete the znode of a ${holds ? "holder" : "waiter"}`, [
    h("p", "Delete ", h("b.mono", visible(path)), ` of ${visible(who(one))}?`),
    h("p.wrong", holds ? "The next one gets the lock, while the client that holds it still believes that it does. Expire its session if its client is to know."
      : "The client waits on, for a place that it no longer has. Expire its session if its client is to know."),
    lineList([pyzk("rm", `--version=${one.version}`, path)]),
  ], "Delete", () => checked(() => remove("/znode", { path, version: one.version })).then(() => toast("Deleted")), { danger: true });
}

/** Whether such a holder understands that it is asked for the lock. */
export const revocable = (one) => ["pyzk", "Curator"].includes(one.library) && one.data !== REVOKE;

export const isAsked = (one) => one.data === REVOKE;

/** Ask a holder for the lock: it may give it back, and may ignore that. */
export function askBack(directory, one) {
  const path = join(directory, one.names[0]);
  ask("Ask for the lock back", [
    h("p", `Ask ${visible(who(one))} for `, h("b.mono", visible(directory)), "?"),
    h("p", `Its znode gets the data ${REVOKE}. The holder gives the lock back if its program handles that (on_revoke, makeRevocable); otherwise nothing happens.`),
    lineList([pyzk("set", `--version=${one.version}`, path, REVOKE)]),
  ], "Ask", () => checked(() => replace("/znode", { path, data: REVOKE, version: one.version })).then(() => toast("The holder is asked")));
}
