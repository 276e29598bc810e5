// Numbers, times and names, as people read them.

let ahead = 0; // ms by which the server's clock is ahead of ours

export function setServerTime(ms) {
  ahead = ms - Date.now();
}

/** The server's time now, in ms since the epoch. */
export const serverNow = () => Date.now() + ahead;

export const count = (number) => number.toLocaleString("en");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  if (number < 1024 ** 2) return `${(number / 1024).toFixed(1)} KiB`;
  return `${(number / 1024 ** 2).toFixed(1)} MiB`;
}

export function duration(ms) {
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

export function ago(ms) {
  const passed = serverNow() - ms;
  return passed < 1500 ? "now" : `${duration(passed)} ago`;
}

const local = (ms) => new Date(ms - 60000 * new Date(ms).getTimezoneOffset()).toISOString();

/** The local time, with ms. */
export const clock = (ms) => local(ms).slice(11, 23);

export const moment = (ms) => (ms ? `${local(ms).slice(0, 10)} ${clock(ms)} (${ago(ms)})` : "at the beginning");

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\u115f\u1160\u3164\uffa0]/gu;

const asNumber = (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`;

/** A name as it can be shown: what cannot be seen, or turns the direction of text, is written as its number. */
export function visible(text, most = 300) {
  const shown = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text;
  return shown.replace(HIDDEN, asNumber);
}

/** The same for text of several lines. */
export const visibleText = (text) => text.replace(HIDDEN, (sign) => ("\n\t".includes(sign) ? sign : asNumber(sign)));

export const baseName = (path) => (path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1));

export const parentOf = (path) => path.slice(0, Math.max(path.lastIndexOf("/"), 1));

export const join = (path, name) => `${path === "/" ? "" : path}/${name}`;

/** A session's id without leading zeros. */
export const sessionId = (id) => id.replace(/^0x0+(?=.)/, "0x");

export const sessionName = (session) => session.name || sessionId(session.id);

const PERMS = [[1, "read"], [2, "write"], [4, "create"], [8, "delete"], [16, "set the ACL"]];

export function permissions(bits) {
  if ((bits & 31) === 31) return "may do everything";
  const words = PERMS.filter(([bit]) => bits & bit).map(([, word]) => word);
  if (!words.length) return "may do nothing";
  return `may ${words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]}`;
}

export function identity({ scheme, id }) {
  if (scheme === "world") return "Everybody";
  if (scheme === "digest") return `Who has the password of ${visible(id.split(":")[0])}`;
  if (scheme === "ip") return `Clients from ${visible(id)}`;
  if (scheme === "auth") return "The creator";
  return `${visible(scheme)}: ${visible(id)}`;
}

const KINDS = {
  persistent: "persistent", ephemeral: "ephemeral: goes with its session",
  container: "container: goes after its last child", ttl: "TTL: goes if nothing changes it",
};
export const kindInWords = (kind) => KINDS[kind] ?? kind;
