// SPDX-License-Identifier: Apache-2.0
// Starts the program named by HASTEN_BIN as a server on a free port, for the tests of this folder.
import {spawn} from 'node:child_process';
import {createServer} from 'node:net';

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const {port} = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** The fake engine's answers are known; a real model's are only held to their form. */
export const isFake = process.env.HASTEN_BIN.endsWith('fake_server');

/** {url, stop()} of a server that is ready. `stop` ends it and returns its exit status. */
export async function startServer(...args) {
  const port = await freePort();
  const server = spawn(process.env.HASTEN_BIN, ['serve', '--port', String(port), ...args],
                       {stdio: ['ignore', 'ignore', 'inherit']});
  const ended = new Promise((resolve) => server.once('exit', resolve));
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    const ready = await fetch(`${url}/health/ready`).then((reply) => reply.ok, () => false);
    if (ready) break;
    if (tries === 300 || server.exitCode !== null) throw new Error('the server does not start');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return {
    url,
    async stop() {
      server.kill('SIGTERM');
      return ended;
    },
  };
}
