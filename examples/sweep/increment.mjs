// Two clients add 1 to a number. Each reads it and writes it if nobody else has, and tries again if the
// connection is lost. pyzk-sweep finds the run in which that is wrong:
//
//     npm install node-zookeeper-client && pyzk-sweep -- node increment.mjs

import { promisify } from 'node:util';
import zookeeper from 'node-zookeeper-client';

const { Exception } = zookeeper;

function connect(variable) {
  const client = zookeeper.createClient(process.env[variable], { spinDelay: 10, retries: 0 });
  client.on('expired', () => process.exit(75)); // it has given up; the number is not known
  client.connect();
  return client;
}

const get = (client) =>
  new Promise((resolve, reject) => {
    client.getData('/number', (error, data, stat) => (error ? reject(error) : resolve([data, stat])));
  });

async function again(attempt) {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (error.getCode?.() === Exception.SESSION_EXPIRED) process.exit(75);
    }
  }
}

const increment = (client) =>
  again(async () => {
    try {
      const [data, stat] = await get(client);
      await promisify(client.setData).call(client, '/number', Buffer.from(`${Number(data) + 1}`), stat.version);
    } catch (error) {
      if (error.getCode?.() !== Exception.NO_NODE) throw error;
      await promisify(client.create).call(client, '/number', Buffer.from('1'));
    }
  });

const clients = [connect('ZOOKEEPER_HOSTS_A'), connect('ZOOKEEPER_HOSTS_B')];
await Promise.all(clients.map(increment));
const [data] = await again(() => get(clients[0]));
if (`${data}` !== '2') {
  console.log(`two increments, and the number is ${data}`);
  process.exit(1);
}
process.exit(0);
