// Who holds locks and who waits, in the whole tree: for the number at the tab, and for the overview.

import { lines } from "./api.js";

const KEPT = 2000; // directories
const LISTED = 5; // of the longest waits

/** The directories of locks at and below a path, and the deadlocks. What is found in the whole tree is also the news. */
export async function readLocks(path) {
  const rows = [];
  let last = { directories: 0, cycles: [] };
  for await (const batch of lines("/locks", { path })) {
    for (const row of batch) {
      if (row.done) last = row;
      else if (rows.length < KEPT) rows.push(row);
    }
  }
  if (path === "/") tell(rows, last);
  return { rows, directories: last.directories, cycles: last.cycles };
}

export const inUse = (row) => row.shape !== "group" && (row.held || row.waiting || row.items);

const news = { known: false, used: 0, cycles: [], waits: [], zxid: "" };

function tell(rows, { cycles }) {
  const waits = rows.flatMap((row) => row.waiters.filter((one) => one.since).map((one) => ({ ...one, path: row.path, holders: row.holders })));
  waits.sort((a, b) => a.since - b.since);
  Object.assign(news, { known: true, used: rows.filter(inUse).length, cycles, waits: waits.slice(0, LISTED) });
  document.dispatchEvent(new CustomEvent("locks", { detail: news }));
}

let looking = null;
let next = 0; // when the tree may be looked at again, by `performance.now`
let stale = 0; // when it is, even if nothing has been written: a session may have a name now

/** The same of the whole tree, as it was a short time ago: looking takes 1 % of the time at most. */
export async function contention(figures) {
  const now = performance.now();
  if (now >= next && (figures.zxid !== news.zxid || now > stale)) {
    looking ??= readLocks("/").then(() => { news.zxid = figures.zxid; }).finally(() => {
      const took = performance.now() - now;
      next = now + took + Math.max(1000, 100 * took);
      stale = next + 10000;
      looking = null;
    });
  }
  if (looking && !news.known) await looking;
  return news;
}
