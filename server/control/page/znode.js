// One znode: its data, its Stat in words, its ACL, and what can be done with it.

import { blob, get, lines, post, remove, replace } from "./api.js";
import { asHex, asJson, asText, fromBase64, isGzip, toBase64, unpacked } from "./data.js";
import { ask, attempt, badge, button, check, copy, dim, download, field, h, linkButton, look, onChange, put, select as choices, textField, to, toast } from "./dom.js";
import { baseName, bytes, count, duration, identity, join, kindInWords, moment, parentOf, permissions, plural, sessionName, visible, visibleText } from "./words.js";

const WHOLE = 1024 * 1024; // bytes of data that are read at most
const FEW = 5; // holders, and waiters, of a lock that are named
const PIECE = 500000; // characters of an import in one request, which has 4 MiB at most

export const znodeLink = (path, text = path) => h("a.mono", { href: to("tree", { path }) }, visible(text));
export const sessionLink = (session) =>
  h("a.mono", { href: to("sessions", { id: session.id }) }, visible(sessionName(session)));

/** What a test does to the clients of an endpoint. */
export const endpointBadges = (point) => point && [
  point.cut && badge("endpoint cut off", "bad"), point.paused && badge("endpoint paused", "warn"),
  point.delay > 0 && badge(`slow by ${point.delay} s`, "warn"),
];

export function openZnode(place, select) {
  let shown = null; // the answer of the server
  let path = null;
  let mode = ""; // of the data; empty: what fits best
  let length = 0; // bytes that are asked for
  let drawn = "";

  async function show(wanted) {
    if (wanted !== path) {
      mode = "";
      length = 64 * 1024;
    }
    path = wanted;
    drawn = "";
    await refresh();
  }

  async function refresh() {
    if (path === null) return;
    const asked = path;
    if (!drawn && !place.firstChild) put(place, h("p.empty", { role: "status" }, "loading …"));
    let answer;
    let lock = null;
    try {
      answer = await get("/znode", { path: asked, length });
      if (answer.stat.numChildren) [lock] = await held(asked);
    } catch (error) {
      if (asked !== path) return;
      if (error.code !== -101) throw error;
      if (drawn !== "gone") {
        drawn = "gone";
        put(place, h("h1.path.mono", visible(asked, 2000)), h("p.empty", "There is no such znode (any more)."),
          button("Go to its parent", () => select(parentOf(asked))));
      }
      return;
    }
    if (asked !== path) return;
    shown = { ...answer, lock };
    const state = JSON.stringify(shown);
    if (state !== drawn) {
      drawn = state;
      await draw();
    } else for (const element of place.querySelectorAll("[data-time]")) element.textContent = moment(Number(element.dataset.time));
  }

  const time = (ms) => h("span", { "data-time": ms }, moment(ms));

  async function draw() {
    const own = shown; // what the buttons are about: what is seen, not what comes next
    const { stat } = own;
    const facts = [
      ["Created", [time(stat.ctime), dim(`zxid ${stat.czxid}`)]],
      ["Changed", [time(stat.mtime), dim(`zxid ${stat.mzxid}`)]],
      ["Children", [plural(stat.numChildren, "child", "children"), dim(`cversion ${stat.cversion}, pzxid ${stat.pzxid}`)]],
      ["Version", [count(stat.version), dim(`of its ACL: ${count(stat.aversion)}`)]],
      ["Kind", [kindInWords(shown.kind), shown.ttl_ms ? dim(`after ${duration(shown.ttl_ms)}`) : null]],
    ];
    if (shown.owner) facts.push(["Owner", [sessionLink(shown.owner)]]);
    const { data, child } = shown.watchers;
    const watched = h("a", { href: to("watches", { text: shown.path }) }, `${plural(data, "watch", "watches")} on it, ${count(child)} on its children`);
    facts.push(["Watches", [data + child ? watched : "none"]]);
    const scroll = place.querySelector("pre")?.scrollTop;
    put(place,
      h("h1.path.mono", breadcrumb(shown.path)),
      h("div.bar",
        button("Copy path", () => copy(own.path, "Path copied")),
        button("Edit", () => edit(own), { class: "primary" }),
        button("Create child", () => create(own.path, select)),
        button("Delete", () => erase(own), { class: "danger", disabled: shown.path === "/" }),
        button("Export", () => attempt(async () => download(`${fileName(own.path)}.jsonl`, [await blob("/export", { path: own.path })]))),
        button("Import", () => load(own.path)),
        linkButton("Timeline", "timeline", { path: shown.path }), shown.lock?.shape ? null : linkButton("Locks", "locks", { path: shown.path })),
      shown.lock?.shape && lockPart(shown.lock),
      await dataPart(),
      h("div.columns",
        h("section", h("h2", "Stat"), definitions(facts)),
        h("section", h("h2", "Who may do what"), h("ul.plain", shown.acl.map((entry) =>
          h("li", h("b", identity(entry)), ` ${permissions(entry.perms)} `, dim(visible(`${entry.scheme}:${entry.id}`))))))));
    const pre = place.querySelector("pre");
    if (pre && scroll) pre.scrollTop = scroll;
  }

  /** What the directory itself is, if it is one of locks: no more than the one line. */
  async function held(at) {
    const found = [];
    for await (const batch of lines("/locks", { path: at, below: false })) found.push(...batch);
    return found;
  }

  function lockPart(lock) {
    const people = (some) => some.slice(0, FEW).map((one, at) => [at ? ", " : "", one.session ? sessionLink(one.session) : dim("no session"),
      one.data && one.data !== one.session?.name ? dim(` “${visible(one.data, 60)}”`) : null]);
    const more = (all) => (all > FEW ? ` and ${count(all - FEW)} more` : null);
    const holds = lock.held ? ["held by ", people(lock.holders), more(lock.held)] : "nobody holds it";
    const waits = lock.waiting ? [`; ${count(lock.waiting)} ${lock.waiting === 1 ? "waits" : "wait"}: `, people(lock.waiters), more(lock.waiting)] : null;
    return h("p.held", badge(lock.shape, "shape"), holds, waits, " ", linkButton("Locks", "locks", { path: shown.path }));
  }

  function breadcrumb(whole) {
    const names = whole === "/" ? [] : whole.slice(1).split("/");
    const parts = [h("a", { href: "#tree?path=%2F", "aria-label": "the root" }, "/")];
    names.forEach((name, at) => {
      if (at) parts.push("/");
      const above = `/${names.slice(0, at + 1).join("/")}`;
      parts.push(at === names.length - 1 ? h("b", visible(name)) : h("a", { href: to("tree", { path: above }) }, visible(name)));
    });
    return parts;
  }

  // --- its data ---

  const raw = () => (shown.base64 === null ? null : fromBase64(shown.base64));

  async function dataPart() {
    const packed = raw();
    const title = h("h2", "Data ");
    if (packed === null || !packed.length) {
      return h("section", title, h("p.dim", packed === null ? "null: it was created without data" : "empty"));
    }
    const inside = isGzip(packed) ? await unpacked(packed) : null;
    const found = inside ?? packed;
    const text = asText(found, found.length < shown.bytes || inside !== null);
    const json = asJson(text);
    const modes = [["json", "JSON", json], ["text", "Text", text === null ? null : visibleText(text)], ["hex", "Hex", asHex(found.subarray(0, 65536))]].filter(([, , value]) => value !== null);
    const best = modes.find(([id]) => id === mode) ?? modes[0];
    const pre = h("pre.data", { tabindex: "0", "aria-label": "Data" }, best[2]);
    const tabs = h("div.segments", { role: "group", "aria-label": "How to show the data" }, modes.map(([id, word]) =>
      button(word, () => { mode = id; draw(); }, { "aria-pressed": String(id === best[0]) })));
    return h("section.data-part",
      h("div.bar", title, dim(bytes(shown.bytes)), inside && badge(`gzip, ${bytes(inside.length)} unpacked`), tabs,
        button("Copy", () => copy(best[2], "Data copied"), { class: "quiet" }),
        button("Download", save, { class: "quiet" })),
      pre,
      packed.length < shown.bytes && h("p.dim", `The first ${bytes(packed.length)} of ${bytes(shown.bytes)}. `,
        length < WHOLE && button("Show more", () => { length = WHOLE; drawn = ""; refresh(); }, { class: "quiet" })));
  }

  async function whole(own) {
    const pieces = [];
    for (let offset = 0; offset < own.bytes; offset += WHOLE) {
      pieces.push(fromBase64((await get("/znode", { path: own.path, offset, length: WHOLE })).base64 ?? ""));
    }
    return pieces;
  }

  const save = () => attempt(async () => download(fileName(shown.path), await whole(shown)));

  // --- what can be done ---

  async function edit(own) {
    const { path: at, stat } = own;
    const pieces = await whole(own);
    const before = asText(new Uint8Array(await new Blob(pieces).arrayBuffer()));
    const input = dataInput(before ?? "", before === null);
    const any = check("Overwrite whatever is there");
    ask("Edit data", [
      h("p.mono", visible(at)), ...input.parts,
      h("p.dim", `Saved only if the version is still ${stat.version}.`),
      any,
    ], "Save", async () => {
      try {
        await replace("/znode", { path: at, data: await input.read(), version: any.control.checked ? -1 : stat.version });
      } catch (error) {
        if (error.code !== -103) throw error;
        const now = await get("/znode", { path: at, length: 0 });
        throw new Error(`Somebody has changed it meanwhile: the version is ${now.stat.version}, not ${stat.version}. Cancel to see it, or overwrite it.`);
      }
      toast("Saved");
      await refresh();
    });
  }

  function erase({ path: at, stat }) {
    const any = check(`Also if its version is no longer ${stat.version}`);
    ask("Delete a znode", [
      h("p", "Delete ", h("b.mono", visible(at)), "? Watches fire, and no undo."),
      stat.numChildren ? h("p.wrong", `It has ${plural(stat.numChildren, "child", "children")}: only a znode without children can be deleted.`) : null,
      any,
    ], "Delete", async () => {
      await remove("/znode", { path: at, version: any.control.checked ? -1 : stat.version });
      toast("Deleted");
      select(parentOf(at));
      look();
    }, { danger: true });
  }

  return { show, refresh, remove: () => shown?.path === path && path !== "/" && erase(shown), close: () => { path = null; } };
}

const fileName = (path) => baseName(path).replace(/[^\w.-]/g, "_");

/** Create what an export, or `pyzk dump`, has written. */
function load(path) {
  const top = textField("path", "", { required: true, value: path });
  const file = h("input", { type: "file", required: true });
  const any = check("Replace other data that is there");
  ask("Import a subtree", [field("Where its top goes", top), field("A file of Export or pyzk dump", file), any], "Import", async () => {
    const rest = (await file.files[0].text()).split("\n").filter(Boolean);
    let [written, same] = [0, 0];
    while (rest.length) {
      let size = 0;
      const fits = rest.findIndex((line) => (size += line.length) > PIECE); // one line at least
      const answer = await post("/import", { path: top.value, lines: rest.splice(0, fits < 0 ? rest.length : Math.max(fits, 1)), overwrite: any.control.checked });
      written += answer.written;
      same += answer.same;
    }
    toast(`${plural(written, "znode")} written, ${count(same)} were the same`);
    look();
  });
}

export function definitions(facts) {
  return h("dl.facts", facts.map(([word, value]) => [h("dt", word), h("dd", value)]));
}

function dataInput(text, binary) {
  const area = h("textarea", { name: "data", rows: "10", class: "mono", spellcheck: "false", value: text });
  const file = h("input", { type: "file", "aria-label": "A file instead" });
  return {
    parts: [binary ? h("p.wrong", "The data is no text. What you save replaces it.") : null, field("Data", area), field("or a file", file)],
    async read() {
      if (file.files.length) return { base64: toBase64(new Uint8Array(await file.files[0].arrayBuffer())) };
      return area.value;
    },
  };
}

export function create(parent, select) {
  const name = textField("name", "", { required: true, autocomplete: "off" });
  const kind = choices("kind", [["persistent"], ["container"], ["ttl", "TTL"], ["ephemeral"]]);
  const sequential = check("Sequential: the server appends a number");
  const ttl = h("input", { type: "number", name: "ttl", min: "1", value: "60" });
  const owner = textField("session", "0x… or a name");
  const input = dataInput("", false);
  const ttlField = field("Seconds without a change", ttl);
  const ownerField = field("Session that it belongs to", owner);
  const adapt = () => {
    ttlField.hidden = kind.value !== "ttl";
    ownerField.hidden = kind.value !== "ephemeral";
  };
  onChange(adapt, kind);
  adapt();
  const dialog = ask("Create a znode", [
    field(`Name, below ${visible(parent)}`, name), field("Kind", kind), ttlField, ownerField,
    sequential, ...input.parts,
  ], "Create", async () => {
    const body = { path: join(parent, name.value), data: await input.read(), kind: kind.value };
    if (sequential.control.checked) body.sequential = true;
    if (kind.value === "ttl") body.ttl_ms = Math.round(Number(ttl.value) * 1000);
    if (kind.value === "ephemeral") body.session = owner.value;
    const answer = await post("/znode", body);
    toast(`Created ${visible(answer.path)}`);
    location.hash = to("tree", { path: answer.path });
    select(answer.path);
    look();
  });
  name.focus();
  return dialog;
}
