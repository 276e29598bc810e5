// Two clients add 1 to a number. Each reads it and writes it if nobody else has, and tries again if the
// connection is lost. pyzk-sweep finds the run in which that is wrong:
//
//     npm install node-zookeeper-client && pyzk-sweep -- node increment.mjs
//
// The program is kept: it asks for run after run, as Node needs longer for its start than for a run.

import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import zookeeper from 'node-zookeeper-client';

const { Exception } = zookeeper;

const get = (client) =>
  new Promise((resolve, reject) => {
    client.getData('/number', (error, data, stat) => (error ? reject(error) : resolve([data, stat])));
  });

async function again(client, attempt) {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (client.expired) throw new Error('gave up'); // the number is not known
      await setTimeout(5);
    }
  }
}

const increment = (client) =>
  again(client, async () => {
    try {
      const [data, stat] = await get(client);
      await promisify(client.setData).call(client, '/number', Buffer.from(`${Number(data) + 1}`), stat.version);
    } catch (error) {
      if (error.getCode?.() !== Exception.NO_NODE) throw error;
      await promisify(client.create).call(client, '/number', Buffer.from('1'));
    }
  });

async function work(clients) {
  await Promise.all(clients.map(increment));
  const [data] = await again(clients[0], () => get(clients[0]));
  return `${data}` === '2' ? '' : `two increments, and the number is ${data}`;
}

async function run(hosts) {
  const clients = hosts.map((each) => zookeeper.createClient(each, { spinDelay: 10, retries: 0 }));
  const expired = new Promise((resolve) => {
    for (const client of clients) {
      client.on('expired', () => {
        client.expired = true;
        resolve('gave up');
      });
      client.connect();
    }
  });
  const verdict = await Promise.race([work(clients).catch((error) => error.message), expired]);
  for (const client of clients) {
    client.expired = true;
    client.close();
  }
  return verdict;
}

let verdict = '';
for (;;) {
  // Say what was wrong with the last run; the answer has the addresses for the next one.
  const answer = await fetch(`${process.env.PYZK_SWEEP}/sweep/next`, { method: 'POST', body: verdict });
  if (answer.status !== 200) break;
  const hosts = new Map((await answer.text()).trim().split('\n').map((line) => line.split('=')));
  verdict = await run([hosts.get('a'), hosts.get('b')]);
}
process.exit(0);
