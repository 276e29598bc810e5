// The tree, lazily and page by page; search on the server; one znode beside it.

import { lines, pages } from "./api.js";
import { badge, button, dim, form, h, onChange, put, reconcile, searchField, select as choices, to } from "./dom.js";
import { bytes, count, join, parentOf, plural, serverNow, visible } from "./words.js";
import { create, openZnode } from "./znode.js";

const PAGE = 200; // children at a time
const MOST = 4000; // children of one znode; then a filter is better
const FRESH = 10000; // ms for which a change is marked

export function open(place, params) {
  const root = { path: "/", name: "/", level: 1, row: null, open: true, children: [], more: false, count: 0 };
  const nodes = new Map([["/", root]]);
  let selected = params.path || "/";
  let focus = selected;
  let found = null; // the result of a search
  let search = null; // what stops it

  const text = searchField("Search in names and paths", "Search");
  const where = choices("in", [["name", "names"], ["data"], ["both"]], { "aria-label": "Where to search" });
  const state = h("p.dim.hint", { role: "status" });
  const list = h("ul", { role: "tree", "aria-label": "Znodes", class: "rows" });
  const detail = h("article.detail", { "aria-label": "The znode" });
  const left = h("div.pane",
    form("bar", () => find(), text, where,
      button("+", () => create(selected, select), { class: "quiet", title: "Create a znode below the selected one", "aria-label": "Create a znode below the selected one" })),
    state, list);
  state.textContent = "loading …";
  put(place, h("div.split", left, detail));
  const znode = openZnode(detail, select);

  // --- the rows ---

  function visibleNodes() {
    const rows = [];
    const add = (node) => {
      rows.push(node);
      if (!node.open) return;
      for (const name of node.children) {
        const child = nodes.get(join(node.path, name));
        if (child) add(child);
      }
      if (node.more) rows.push({ rest: node, path: `${node.path}\n`, level: node.level + 1 });
    };
    add(root);
    return rows;
  }

  function draw() {
    const rows = found ? found.rows : visibleNodes();
    if (!rows.some((row) => row.path === focus)) focus = rows[0]?.path;
    reconcile(list, rows, (row) => `${found ? "?" : ""}${row.path}`, make, update);
  }

  function make(row) {
    if (row.rest) {
      return h("li", { role: "treeitem", class: "row more", "aria-level": row.level, on: { click: () => more(row.rest) } });
    }
    const element = h("li", { role: "treeitem", class: "row" },
      h("span.twist", { "aria-hidden": "true" }), h("span.name.mono"), h("span.meta"));
    element.addEventListener("click", (event) => {
      const node = nodes.get(row.path);
      if (event.target.closest(".twist") && node && !found) toggle(node);
      else select(row.path);
    });
    element.addEventListener("dblclick", () => !found && toggle(nodes.get(row.path)));
    return element;
  }

  function update(element, row) {
    element.row = row;
    element.tabIndex = row.path === focus ? 0 : -1;
    element.style.setProperty("--level", row.level);
    if (row.rest) {
      const left = row.rest.count - row.rest.children.length;
      element.textContent = row.rest.children.length >= MOST
        ? `${count(left)} more: search, or narrow them by a filter` : `Show more (${count(left)} left)`;
      return;
    }
    const shown = row.row;
    const children = shown ? shown.children : row.count;
    element.ariaLevel = row.level;
    element.ariaSelected = row.path === selected;
    element.ariaExpanded = children && !found ? row.open : null;
    element.classList.toggle("fresh", Boolean(shown && serverNow() - shown.mtime < FRESH && shown.mtime));
    const [twist, name, meta] = element.children;
    twist.textContent = children && !found ? (row.open ? "▾" : "▸") : "";
    name.textContent = visible(found ? row.path : row.name);
    name.title = visible(row.path, 2000);
    const state = shown ? `${shown.kind} ${children} ${shown.bytes} ${shown.owner?.id} ${shown.owner?.name}` : `${children}`;
    if (element.drawn !== state) {
      element.drawn = state;
      put(meta,
        shown && shown.kind !== "persistent" && badge(shown.kind, shown.kind),
        shown?.owner?.name && dim(visible(shown.owner.name)),
        children ? h("span.dim", { title: plural(children, "child", "children") }, count(children), h("span.unseen", children === 1 ? " child" : " children")) : null,
        shown?.bytes ? h("span.dim.size", bytes(shown.bytes)) : null);
    }
  }

  // --- reading ---

  /** Read the children of a znode again, as many as are wanted. If another reading begins meanwhile, that one counts. */
  async function load(node) {
    const turn = (node.turn = (node.turn ?? 0) + 1);
    const wanted = (node.wanted ??= PAGE);
    const { rows, more, count: all } = await pages("/children", { path: node.path }, wanted, "children", "name");
    if (node.turn !== turn) return;
    Object.assign(node, { count: all, children: rows.map((row) => row.name), more });
    for (const row of rows) {
      const path = join(node.path, row.name);
      const child = nodes.get(path) ?? { path, name: row.name, level: node.level + 1, open: false, children: [], more: false, count: 0 };
      child.row = row;
      nodes.set(path, child);
    }
  }

  async function more(node) {
    if (node.children.length >= MOST) {
      text.focus();
      return;
    }
    node.wanted = Math.min(node.children.length + PAGE, MOST);
    await load(node);
    draw();
  }

  async function toggle(node, open = !node.open) {
    if (open && !node.row?.children && node !== root) return;
    node.open = open;
    if (open) await load(node);
    draw();
  }

  async function refresh() {
    await znode.refresh();
    if (found) return;
    const opened = visibleNodes().filter((node) => node.open);
    for (const node of opened) {
      if (node !== root && !nodes.has(node.path)) continue;
      try {
        await load(node);
      } catch (error) {
        if (error.code !== -101) throw error;
        node.open = false; // it is gone; its parent will say so
        node.children = [];
      }
      if (node !== root && !node.children.length) node.open = false;
    }
    const kept = new Set(["/"]);
    for (const node of nodes.values()) for (const name of node.children) kept.add(join(node.path, name));
    for (const path of nodes.keys()) if (!kept.has(path)) nodes.delete(path);
    draw();
  }

  // --- choosing ---

  async function select(path) {
    selected = focus = path;
    const hash = to("tree", { path });
    if (location.hash !== hash) {
      history.replaceState(null, "", hash);
      document.dispatchEvent(new Event("where"));
    }
    draw();
    await znode.show(path);
  }

  /** Open all znodes above a path. */
  async function reveal(path) {
    const names = path.split("/").slice(1, -1);
    let node = root;
    await load(root);
    for (const name of names) {
      node = nodes.get(join(node.path, name));
      if (!node) break;
      node.open = true;
      await load(node).catch(() => { node.open = false; });
    }
  }

  async function find() {
    search?.abort();
    found = null;
    state.textContent = "";
    if (!text.value) {
      draw();
      return;
    }
    search = new AbortController();
    const own = search;
    found = { rows: [] };
    state.textContent = "searching …";
    draw();
    try {
      for await (const batch of lines("/search", { text: text.value, in: where.value, limit: 500 }, own.signal)) {
        for (const row of batch) {
          if (row.done) {
            const so = row.more ? `the first ${count(row.found)} of more` : count(row.found);
            state.textContent = `${so} found among ${plural(row.looked_at, "znode")}`;
          } else found.rows.push({ path: row.path, name: row.name, level: 1, row });
        }
        found.rows.sort((a, b) => (a.path < b.path ? -1 : 1));
        draw();
      }
    } catch (error) {
      if (!own.signal.aborted) state.textContent = error.message;
    }
  }

  let typing = 0;
  text.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(find, 250);
  });
  onChange(find, where);

  // --- the keyboard ---

  function focusOn(row) {
    if (!row) return;
    focus = row.path;
    draw();
    list.keyed.get(`${found ? "?" : ""}${focus}`)?.focus();
  }

  list.addEventListener("keydown", async (event) => {
    const row = event.target.row;
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = found ? found.rows : visibleNodes();
    const at = rows.findIndex((other) => other.path === row.path);
    const keys = {
      ArrowDown: () => focusOn(rows[at + 1]),
      ArrowUp: () => focusOn(rows[at - 1]),
      Home: () => focusOn(rows[0]),
      End: () => focusOn(rows.at(-1)),
      ArrowRight: () => (row.rest || found ? null : row.open ? focusOn(rows[at + 1]) : toggle(row, true)),
      ArrowLeft: () => (row.rest || found ? null : row.open && row !== root ? toggle(row, false) : focusOn(nodes.get(parentOf(row.path)))),
      Enter: () => (row.rest ? more(row.rest) : select(row.path)),
      " ": () => (row.rest ? more(row.rest) : select(row.path)),
      Delete: () => (row.rest ? null : select(row.path).then(() => znode.remove())),
    };
    if (keys[event.key]) {
      event.preventDefault();
      await keys[event.key]();
    }
  });

  let ready = false;
  const fading = setInterval(() => ready && !found && draw(), 2000); // the marks of changes
  return {
    async refresh() {
      if (!ready) {
        await reveal(selected);
        ready = true;
        if (!found) state.textContent = "";
        draw();
        await znode.show(selected);
        list.keyed.get(selected)?.scrollIntoView({ block: "nearest" });
      } else await refresh();
    },
    async go({ path }) {
      if (!path || path === selected) return;
      text.value = "";
      await find();
      await reveal(path);
      await select(path);
      list.keyed.get(path)?.scrollIntoView({ block: "nearest" });
    },
    close() {
      clearInterval(fading);
      search?.abort();
      znode.close();
    },
  };
}
