// Numbers, times and names, as people read them.

let ahead = 0; // ms by which the server's clock is ahead of ours

export function setServerTime(ms) {
  ahead = ms - Date.now();
}

/** The server's time now, in ms since the epoch. */
export const serverNow = () => Date.now() + ahead;

export function count(number) {
  return number.toLocaleString("en");
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

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

const two = (number) => String(number).padStart(2, "0");

/** The local time, with ms. */
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function moment(ms) {
  if (!ms) return "at the beginning";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)} (${ago(ms)})`;
}

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\u115f\u1160\u3164\uffa0]/gu;

const asNumber = (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`;

/** A name as it can be shown: what cannot be seen, or turns the direction of text, is written as its number. */
export function visible(text, most = 300) {
  const shown = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text;
  return shown.replace(HIDDEN, asNumber);
}

/** The same for text of several lines. */
export const visibleText = (text) => text.replace(HIDDEN, (sign) => ("\n\t".includes(sign) ? sign : asNumber(sign)));

export function baseName(path) {
  return path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
}

export function parentOf(path) {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 1));
}

export function join(path, name) {
  return path === "/" ? `/${name}` : `${path}/${name}`;
}

/** A session's id without leading zeros. */
export function sessionId(id) {
  return id.replace(/^0x0+(?=.)/, "0x");
}

export function sessionName(session) {
  return session.name || sessionId(session.id);
}

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
