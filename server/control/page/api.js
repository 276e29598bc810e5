// Requests to the server. A token, where the server wants one, stays in this tab.

const PREFIX = "/api/v1";
let token = sessionStorage.getItem("token") ?? "";

export function setToken(given) {
  token = given;
  sessionStorage.setItem("token", given);
}

export const hasToken = () => Boolean(token);

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `status ${status}`);
    this.status = status;
    this.code = problem.code;
  }
}

/** The server does not answer. */
export class Gone extends Error {}

function gone(error) {
  throw error.name === "AbortError" ? error : new Gone("the server does not answer");
}

async function send(method, path, options = {}) {
  const { query = {}, body, signal, accept = "application/json" } = options;
  const used = token;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const headers = { accept };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(PREFIX + path + search, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
  }).catch(gone);
  if (response.status === 401 && used !== token) return send(method, path, options); // it was given meanwhile
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

const json = async (...given) => (await send(...given)).json().catch(gone);
export const get = (path, query) => json("GET", path, { query });
export const blob = async (path, query) => (await send("GET", path, { query })).blob().catch(gone);
export const post = (path, body = {}) => json("POST", path, { body });
export const replace = (path, body) => json("PUT", path, { body });
export const remove = (path, query) => json("DELETE", path, { query });

async function* pieces(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(gone);
    if (done) return;
    const found = (rest + value).split("\n");
    rest = found.pop();
    yield found;
  }
}

/** The objects of an answer that comes line by line, in lists as they arrive. */
export async function* lines(path, query, signal) {
  const response = await send("GET", path, { query, signal });
  for await (const found of pieces(response)) yield found.filter(Boolean).map((line) => JSON.parse(line));
}

/** The objects of server-sent events, in lists as they arrive. `EventSource` can send no token. */
export async function* events(path, query, signal, opened = () => {}) {
  const response = await send("GET", path, { query, signal, accept: "text/event-stream" });
  opened();
  for await (const found of pieces(response)) {
    yield found.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
  }
}

/** The first `wanted` things of a list that comes page by page, as `rows`, with the last answer. */
export async function pages(path, query, wanted, things, key) {
  const rows = [];
  let answer;
  do {
    answer = await get(path, { ...query, limit: Math.min(1000, wanted - rows.length), after: rows.at(-1)?.[key] });
    rows.push(...answer[things]);
  } while (answer.more && rows.length < wanted);
  return { ...answer, rows };
}
