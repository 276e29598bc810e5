// Requests to the server. A token, where the server wants one, stays in this tab.

const PREFIX = "/api/v1";
let token = sessionStorage.getItem("token") ?? "";

export function setToken(given) {
  token = given;
  sessionStorage.setItem("token", given);
}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `status ${status}`);
    this.status = status;
    this.code = problem.code;
  }
}

async function send(method, path, { query = {}, body, signal, accept = "application/json" } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  const headers = { accept };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(PREFIX + path + search, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
  });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

export const get = async (path, query, signal) => (await send("GET", path, { query, signal })).json();
export const post = async (path, body = {}) => (await send("POST", path, { body })).json();
export const replace = async (path, body) => (await send("PUT", path, { body })).json();
export const remove = async (path, query) => (await send("DELETE", path, { query })).json();

async function* pieces(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
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

export const session = (id) => encodeURIComponent(id);
