// A fresh ZooKeeper server for each test. All servers run in one process: the one at PYZK_URL, or a
// pyzk-server (from the PATH) that is started at first use and ends with this process. Calls: docs/http.md.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const COMMAND = ['pyzk-server', '--port', '0', '--end-with-stdin', '--log-level', 'warning'];
let main; // a promise of the URL of the process

async function launch() {
  const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child, 'spawn').catch((error) => {
    throw new Error('no pyzk-server on the PATH: pip install pyzk-server, or set PYZK_URL', { cause: error });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('HTTP at ')) continue;
    for (const handle of [child, child.stdin, child.stdout]) handle.unref(); // the tests may end first
    return line.slice('HTTP at '.length);
  }
  throw new Error('pyzk-server has ended; standard error says why');
}

async function ask(url, method, path, body) {
  const response = await fetch(new URL(`api/v1${path}`, url), {
    method,
    headers: body && { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  const answer = /json/.test(response.headers.get('content-type')) ? JSON.parse(text) : text;
  if (response.ok) return answer;
  throw new Error([`${method} ${path}: ${answer.detail}`, answer.timeline].filter(Boolean).join('\n'));
}

export class PyzkServer {
  /**
   * Start a server: `{ config: { tickTime: 100 }, clock: 'frozen' }`, where config has keys of zoo.cfg. With
   * `{ ensemble: 3 }` it is a pretend ensemble: `await server.post('/ensemble/kill', { server: 'leader' })`.
   */
  static async start(options = {}) {
    main ??= process.env.PYZK_URL || launch();
    const { server, hosts } = await ask(await main, 'POST', '/servers', options);
    const scope = options.ensemble ? '/ensemble' : '';
    return Object.assign(new PyzkServer(), { number: server, hosts, scope });
  }

  async stop() {
    await ask(await main, 'DELETE', `/servers/${this.number}`);
  }

  // Any call of docs/http.md: `await server.post('/connections/refuse')`.
  get(path) { return this.#ask('GET', path); }
  post(path, body = {}) { return this.#ask('POST', path, body); }
  delete(path) { return this.#ask('DELETE', path); }
  async #ask(method, path, body) {
    // asked for each time: the first server of an ensemble may be down
    const { url } = await ask(await main, 'GET', `/servers/${this.number}`);
    return ask(url, method, path, body);
  }

  // Sessions: by name, by id, or by an ephemeral znode as in 'owner-of:/leader'.
  nameNextSession(name) { return this.post('/names', { name }); }
  expire(session) { return this.#session(session, 'expire'); }
  disconnect(session) { return this.#session(session, 'disconnect'); }
  pause(session) { return this.#session(session, 'pause'); }
  resume(session) { return this.#session(session, 'resume'); }
  #session(session, act) { return this.post(`/sessions/${encodeURIComponent(session)}/${act}`); }

  /**
   * One more address, for some clients: after `cut()` they are cut off, however often they connect again,
   * until `resume()`; `pause()` and `delay(seconds)` are for them alone too.
   */
  async endpoint(name) {
    const { hosts } = await this.post('/endpoints', { name });
    const act = (verb, body) => this.post(`/endpoints/${name}/${verb}`, body);
    const [cut, pause, resume] = ['cut', 'pause', 'resume'].map((verb) => () => act(verb));
    return { name, hosts, cut, pause, resume, delay: (seconds) => act('delay', { seconds }) };
  }

  restart({ keepData }) { return this.post('/server/restart', { keep_data: keepData }); }
  /** Let time jump. Clients that are connected count as having sent their pings. */
  advance(seconds) { return this.post('/clock/advance', { seconds, keep_alive: true }); }
  /** Wait: `{ until: 'exists', path: '/a' }`. In vain: an error with the timeline. */
  wait(what) { return this.post('/wait', what); }

  // Faults: `{ op: 'create', path: '/jobs/*', when: 'after' }` loses a reply. Holds: `{ kind: 'event' }`.
  async fault(what) { return (await this.post('/faults', what)).fault; }
  async fired(fault) { return (await this.get(`/faults/${fault}`)).fired; }
  async hold(what) { return (await this.post('/holds', what)).hold; }
  release() { return this.delete('/holds'); }

  // The tree: `{ '/app/config': 'debug=1' }`.
  load(znodes) { return this.post('/tree', { znodes }); }
  async assertTree(znodes) {
    const { equal, message } = await this.post('/tree/diff', { znodes });
    if (!equal) throw new Error(message);
  }
  /** The data of all znodes below a path, by path: text, or a Buffer if it is no text. */
  async dump(path = '/') {
    const { znodes } = await this.get(`/tree?path=${encodeURIComponent(path)}`);
    const data = ({ data }) => (data?.base64 === undefined ? data : Buffer.from(data.base64, 'base64'));
    return Object.fromEntries(Object.entries(znodes).map(([at, znode]) => [at, data(znode)]));
  }
  async snapshot() { return (await this.post('/snapshots')).snapshot; }
  restore(snapshot) { return this.post(`/snapshots/${snapshot}/restore`); }

  note(text) { return this.post('/notes', { text }); }
  timeline() { return this.get(`${this.scope}/timeline`); }
  /** Run a piece of a test; its error says what the server has seen. */
  async explain(body) {
    try {
      return await body();
    } catch (error) {
      throw new Error(`${error.message}\n\n${await this.timeline()}`, { cause: error });
    }
  }
}

/** The body of a test with a server of its own: `test('name', withServer(async (server, t) => { ... }))`. */
export const withServer = (body, options) => async (t) => {
  const server = await PyzkServer.start(options);
  try {
    await server.explain(() => body(server, t));
  } finally {
    t.after(() => server.stop()); // after the hooks of the body, which close clients
  }
};
