// What a view shows, from a shell: the lines of `pyzk` and `curl`.

import { hasToken } from "./api.js";
import { button, changed, copy, h, put } from "./dom.js";
import { visible } from "./words.js";

const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word of a command line. What cannot be seen is written as its number, as bash and zsh read it. */
export function quote(text) {
  if (PLAIN.test(text)) return text;
  if (visible(text, Infinity) === text) return `'${text.replaceAll("'", "'\\''")}'`;
  const signs = [...text].map((sign) => {
    if (sign === "\\" || sign === "'") return `\\${sign}`;
    return visible(sign) === sign ? sign : `\\U${sign.codePointAt(0).toString(16).padStart(8, "0")}`;
  });
  return `$'${signs.join("")}'`;
}

/** A command of `pyzk` at this server. */
export function pyzk(...words) {
  const secure = location.protocol === "https:";
  const hosts = `${location.hostname}:${location.port || (secure ? 443 : 80)}`;
  return ["pyzk", `--hosts=${hosts}`, secure && "--tls", ...words.filter(Boolean).map(quote)].filter(Boolean).join(" ");
}

/** The same by HTTP. */
export function curl(path, query = {}, follow = false) {
  const given = Object.entries(query).filter(([, value]) => value);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const token = hasToken() ? ' -H "authorization: Bearer $PYZK_TOKEN"' : "";
  return `curl -s${follow ? "N" : ""}${token} ${quote(`${location.origin}/api/v1${path}${search}`)}`;
}

const option = (name, value) => (value ? `--${name}=${value}` : "");

/** The lines for each view, by what its address says. */
const LINES = {
  overview: () => [pyzk("health"), pyzk("locks", "--check"), curl("/live", {}, true)],
  tree: ({ path = "/" }) => [pyzk("ls", "-l", path), pyzk("get", path), pyzk("stat", path), curl("/znode", { path }), curl("/children", { path })],
  sessions: ({ id }) => [pyzk("sessions"), curl(id ? `/clients/${encodeURIComponent(id)}` : "/clients")],
  locks: ({ path = "/" }) => [pyzk("locks", path), curl("/locks", { path })],
  timeline: ({ op = "", path, session }) => [
    pyzk("trace", ...op.split(/[\s,]+/).map((one) => option("op", one)), option("path", path), option("session", session)),
    pyzk("timeline", option("session", session)),
    curl("/trace", { format: "json", op, path, session }, true),
  ],
  watches: ({ text, session }) => [curl("/watches", { text, session })],
  faults: () => [pyzk("fault", "list"), pyzk("endpoint"), curl("/armed")],
  advice: () => [pyzk("advise"), curl("/advice")],
  ensemble: () => [pyzk("ensemble"), curl("/ensemble")],
};

const row = (line) => h("li", h("code.mono", line), button("Copy", () => copy(line, "The line is copied"), { "aria-label": `Copy ${line}` }));

/** The lines, to be read and copied. */
export const lineList = (lines) => h("ul.lines", lines.map(row));

/** A part of the page that unfolds to the lines of the view that is open. */
export function shellPart() {
  const list = h("ul.lines");
  const part = h("details.shell", h("summary", "The same from a shell"), list);
  const draw = (id, params) => {
    const lines = LINES[id](params);
    if (changed(list, lines)) put(list, lines.map(row));
  };
  return { part, draw };
}
