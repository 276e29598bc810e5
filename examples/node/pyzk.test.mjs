// What a test can do with a server of its own: eleven scenarios with node-zookeeper-client. `node --test`

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, before, beforeEach, after, test } from 'node:test';
import { promisify } from 'node:util';
import zookeeper from 'node-zookeeper-client';
import { PyzkServer, withServer } from './pyzk.mjs';

const { CreateMode, Exception, State } = zookeeper;

/** A connected client, with a name for its session, that is closed after the test. */
async function connect(server, t, name, hosts = server.hosts) {
  await server.nameNextSession(name);
  const client = zookeeper.createClient(hosts, { spinDelay: 50 });
  t.after(() => client.close());
  client.connect();
  await once(client, 'connected');
  return client;
}

const create = (client, path, data = '', mode = CreateMode.PERSISTENT) =>
  promisify(client.create).call(client, path, Buffer.from(data), mode);
const exists = (client, path) => promisify(client.exists).call(client, path);
const setData = (client, path, data) => promisify(client.setData).call(client, path, Buffer.from(data), -1);
const getData = (client, path, watcher) =>
  new Promise((resolve, reject) => {
    client.getData(path, watcher, (error, data) => (error ? reject(error) : resolve(data.toString())));
  });
/** A promise of the next event at a path; the watch is set once this returns. */
const watch = (client, path) =>
  new Promise((watching, reject) => {
    const event = new Promise((resolve) => {
      client.exists(path, resolve, (error) => (error ? reject(error) : watching({ event })));
    });
  });

/** The code under test: a lock that is one ephemeral znode. */
async function acquire(client, path) {
  for (;;) {
    try {
      return await create(client, path, '', CreateMode.EPHEMERAL);
    } catch (error) {
      if (error.code !== Exception.NODE_EXISTS) throw error;
    }
    const { event } = await watch(client, path);
    if (await exists(client, path)) await event;
  }
}

/** The code under test: a create that may be tried again after its reply was lost. */
async function ensure(client, path, data) {
  for (;;) {
    try {
      return await create(client, path, data);
    } catch (error) {
      if (error.code === Exception.NODE_EXISTS) return path;
      if (error.code !== Exception.CONNECTION_LOSS) throw error;
      if (client.getState() !== State.SYNC_CONNECTED) await once(client, 'connected');
    }
  }
}

test('expire a lock holder', withServer(async (server, t) => {
  const holder = await connect(server, t, 'holder');
  const other = await connect(server, t, 'other');
  await acquire(holder, '/lock');
  const acquired = acquire(other, '/lock');
  await server.wait({ until: 'request', op: 'exists', path: '/lock', count: 2 }); // the other waits
  const expired = once(holder, 'expired');

  await server.expire('owner-of:/lock');

  await acquired;
  await expired; // the holder is told
}));

test('a create whose reply is lost', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  const fault = await server.fault({ op: 'create', path: '/config', when: 'after' });

  await ensure(client, '/config', 'debug=1');

  assert.equal(await server.fired(fault), 1);
  await server.assertTree({ '/config': 'debug=1' });
}));

test('an hour passes for a TTL', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  await server.load({ '/cached': { data: 'page', kind: 'ttl', ttl_ms: 3_600_000 } }); // the client cannot
  await server.advance(59 * 60);
  assert.equal(await getData(client, '/cached'), 'page');
  const { event } = await watch(client, '/cached');

  await server.advance(2 * 60); // the server looks for stale znodes every minute

  assert.equal((await event).getName(), 'NODE_DELETED');
}, { config: { extendedTypesEnabled: true } }));

test('a client is cut off and does not know', withServer(async (server, t) => {
  const worker = await connect(server, t, 'worker');
  const other = await connect(server, t, 'other');
  await server.load({ '/report': 'old' });
  await acquire(worker, '/lock');

  await server.pause('worker');
  const written = setData(worker, '/report', 'new');
  await assert.rejects(server.wait({ until: 'data', path: '/report', data: 'new', timeout: 0.1 }));
  assert.equal(worker.getState(), State.SYNC_CONNECTED);
  await Promise.all([server.advance(60), assert.rejects(written)]); // its session expires

  await acquire(other, '/lock');
  await server.assertTree({ '/lock': '', '/report': 'old' });
}));

test('a partition that lasts', withServer(async (server, t) => {
  const link = await server.endpoint('worker');
  const worker = await connect(server, t, 'worker', link.hosts);
  const other = await connect(server, t, 'other');
  await acquire(worker, '/lock');

  await link.cut();
  await server.advance(60); // the worker's session expires

  await acquire(other, '/lock');
  const expired = once(worker, 'expired');
  await link.resume();
  await expired;
}));

test('restart empty', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  await create(client, '/registered', '', CreateMode.EPHEMERAL);
  const expired = once(client, 'expired');

  await server.restart({ keepData: false });

  await expired;
  await server.assertTree({});
  await create(await connect(server, t, 'again'), '/registered', '', CreateMode.EPHEMERAL);
}));

test('seed and compare a tree', withServer(async (server, t) => {
  await server.load({ '/app/config': 'debug=0', '/app/workers': '' });
  const client = await connect(server, t, 'client');

  await setData(client, '/app/config', 'debug=1');
  await create(client, '/app/workers/a');

  await server.assertTree({ '/app/config': 'debug=1', '/app/workers': '', '/app/workers/a': '' });
  const wrong = server.assertTree({ '/app/config': 'debug=0' });
  await assert.rejects(wrong, /holds 'debug=1', expected 'debug=0'/);
  await setData(client, '/app/config', Buffer.from([0xff]));
  const app = { '/app/config': Buffer.from([0xff]), '/app/workers': '', '/app/workers/a': '' };
  const { '/app': _, ...below } = await server.dump('/app');
  assert.deepEqual(below, app);
}));

describe('snapshot and restore between tests', () => {
  let server;
  let prepared;

  before(async () => {
    server = await PyzkServer.start();
    await server.load({ '/stock/apples': '3' });
    prepared = await server.snapshot();
  });
  beforeEach(() => server.restore(prepared));
  after(() => server.stop());

  for (const name of ['the first test', 'the second test']) {
    test(name, async (t) => {
      const client = await connect(server, t, name.replaceAll(' ', '-'));
      assert.equal(await getData(client, '/stock/apples'), '3');
      await setData(client, '/stock/apples', '2');
    });
  }
});

test('the timeline in the message of a failing test', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  await create(client, '/state', 'starting');

  const failing = server.explain(async () => assert.equal(await getData(client, '/state'), 'ready'));

  await assert.rejects(failing, /ready(.|\n)*client +session 0x(.|\n)*create \/state 'starting'/);
}));

test('an event that comes late', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  await server.load({ '/config': 'old' });
  const { event } = await watch(client, '/config');
  await server.hold({ kind: 'event', path: '/config' });

  await server.load({ '/config': 'new' });

  assert.equal(await getData(client, '/config'), 'new'); // read before the event has come
  await server.release();
  assert.equal((await event).getName(), 'NODE_DATA_CHANGED');
}));

test('the leader of an ensemble dies', withServer(async (server, t) => {
  const client = await connect(server, t, 'client');
  await create(client, '/mine', '', CreateMode.EPHEMERAL);
  const again = once(client, 'connected');

  await server.post('/ensemble/kill', { server: 1 });
  await server.post('/ensemble/kill', { server: 'leader' }); // one of three is left, which serves nobody
  await server.post('/ensemble/calm');

  await again; // its session lives on
  await server.assertTree({ '/mine': '' });
}, { ensemble: 3 }));
