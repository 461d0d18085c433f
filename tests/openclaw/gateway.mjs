// What tests with OpenClaw's gateway share: a port, its configuration, its program, and waiting until it answers.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';

/** How long a condition is awaited, in milliseconds: a gateway starts slowly on a busy machine. */
const LIMIT = 180_000;

export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function until(what, done, limit = LIMIT) {
  const end = Date.now() + limit;
  for (let found; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
    found = await done();
    if (found) return found;
  }
  throw new Error(`no ${what}`);
}

/** Writes OpenClaw's configuration with a gateway in it; returns memfw's that names OpenClaw's program. */
export async function configure(stage) {
  stage.gateway = await freePort();
  stage.env.OPENCLAW_GATEWAY_TOKEN = crypto.randomUUID();
  const auth = { mode: 'token', token: '${OPENCLAW_GATEWAY_TOKEN}' };
  await stage.configure({ gateway: { mode: 'local', bind: 'loopback', port: stage.gateway, auth } });
  const program = path.join(stage.dir, 'openclaw');
  fs.writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${stage.openclaw}' "$@"\n`, { mode: 0o755 });
  return { program, config: `[agent]\nprogram = "${program}"\n` };
}

/** Starts the gateway and waits until it answers. */
export async function start(stage) {
  const gateway = stage.start(process.execPath, [stage.openclaw, 'gateway', 'run'], 'gateway');
  await until('gateway', () => new Promise((resolve) => {
    assert.equal(gateway.exitCode, null, 'the gateway has ended');
    const request = http.get({ host: '127.0.0.1', port: stage.gateway, path: '/health' }, (response) => {
      response.resume();
      resolve(response.statusCode < 500);
    });
    request.on('error', () => resolve(false));
  }));
}
