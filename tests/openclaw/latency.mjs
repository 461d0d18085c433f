// How much memfw's plugin adds to the agent's calls and starts, in the gateway of the real OpenClaw: two plugins of
// this test stand before and behind memfw's in OpenClaw's own order of hooks, and look at the clock. The same without
// memfw's plugin is what the hooks themselves cost.
//
//   node latency.mjs --memfw PROGRAM --openclaw openclaw.mjs [--turns 30] [--calls 30] [--keep]
//
// A figure and no test: times depend on the machine. `memfw` must be a release build.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { configure, start, until } from './gateway.mjs';
import { Stage } from './stage.mjs';

const { values: options } = parseArgs({
  options: {
    memfw: { type: 'string' },
    openclaw: { type: 'string' },
    turns: { type: 'string', default: '30' },
    calls: { type: 'string', default: '30' },
    keep: { type: 'boolean', default: false },
  },
});
const [turns, calls] = [Number(options.turns), Number(options.calls)];

/** A plugin that notes when OpenClaw has come to it: `first` before all others, `last` behind them. */
const probe = (log) => `import fs from 'node:fs';
const at = (globalThis[Symbol.for('memfw.latency')] ??= new Map());
const noted = (what, id, isFirst) => {
  if (isFirst) { at.set(id, performance.now()); return; }
  const since = at.get(id);
  at.delete(id);
  if (since !== undefined) fs.appendFileSync('${log}', JSON.stringify({ what, ms: performance.now() - since }) + '\\n');
};
export default (id, isFirst) => ({ id, name: id, description: 'Looks at the clock', register(api) {
  api.on('before_tool_call', (event, context) => {
    noted(event.toolName, 'call ' + (event.toolCallId ?? context?.toolCallId), isFirst);
  }, { priority: isFirst ? 1000 : -1000 });
  api.registerHook('agent:bootstrap', (event) => noted('start', 'start ' + event.sessionKey, isFirst),
    { name: id + '-start', description: 'Looks at the clock' });
} });
`;

function writePlugin(stage, id, isFirst, log) {
  const dir = path.join(stage.dir, id);
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, 'probe.js'), probe(log));
  fs.writeFileSync(path.join(dir, 'index.js'), `import probe from './probe.js';\nexport default probe('${id}', ${isFirst});\n`);
  fs.writeFileSync(path.join(dir, 'package.json'), JSON.stringify({
    name: id, version: '0.1.0', type: 'module', openclaw: { extensions: ['./index.js'] },
  }));
  fs.writeFileSync(path.join(dir, 'openclaw.plugin.json'), JSON.stringify({
    id, name: id, version: '0.1.0', activation: { onStartup: true, onCapabilities: ['hook'] },
    configSchema: { type: 'object', properties: {} },
  }));
  return dir;
}

/** All times of a kind, in milliseconds, with the first start of the gateway for itself. */
async function measured(withMemfw, mode) {
  const stage = new Stage('latency', options);
  let failed = true;
  try {
    const log = path.join(stage.dir, 'times');
    fs.writeFileSync(log, '');
    fs.mkdirSync(path.join(stage.workspace, 'memory'));
    const lines = Array.from({ length: 60 }, (_, n) => `- Ann has noted thing ${n} about her garden.`);
    fs.writeFileSync(stage.memory, `# Memory\n\n${lines.join('\n')}\n`);
    fs.writeFileSync(path.join(stage.workspace, 'notes.txt'), 'nothing\n');
    const { config } = await configure(stage);
    const file = path.join(stage.state, 'openclaw.json');
    const settings = JSON.parse(fs.readFileSync(file, 'utf8'));
    settings.gateway.http = { endpoints: { chatCompletions: { enabled: true } } };
    fs.writeFileSync(file, JSON.stringify(settings));
    fs.writeFileSync(path.join(stage.config, 'config.toml'), `${config}\n[link]\nwrites = "${mode}"\n`);
    stage.memfw('run', '--once');
    const install = async (dir) => {
      const { status, output } = await stage.claw('plugins', 'install', dir, '--force', '--accept-capabilities');
      assert.equal(status, 0, output);
    };
    await install(writePlugin(stage, 'afirst', true, log));
    if (withMemfw) stage.memfw('openclaw', 'install', '--accept-capabilities');
    await install(writePlugin(stage, 'zlast', false, log));
    await start(stage);
    for (let turn = 0; turn < turns; turn += 1) {
      const note = 'memory/2026-11-20.md';
      stage.asked = `Turn ${turn}: note what matters.`;
      stage.steps = Array.from({ length: calls }, (_, n) => [
        { tool: 'write', args: { path: note, content: `# Notes\n\n- Bob likes coffee number ${turn}-${n}.\n` } },
        { tool: 'write', args: { path: 'notes.txt', content: `Bob likes coffee number ${turn}-${n}.\n` } },
        { tool: 'read', args: { path: 'notes.txt' } },
      ][n % 3]);
      await say(stage, stage.asked);
    }
    const times = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    if (withMemfw) await until('child', () => stage.json('openclaw', 'status').installations[0].plugin.running);
    failed = false;
    return times;
  } finally {
    stage.end(failed || options.keep);
  }
}

function say(stage, content) {
  const body = JSON.stringify({ model: 'openclaw/main', messages: [{ role: 'user', content }] });
  const headers = { authorization: `Bearer ${stage.env.OPENCLAW_GATEWAY_TOKEN}`, 'content-type': 'application/json' };
  const to = { host: '127.0.0.1', port: stage.gateway, path: '/v1/chat/completions', method: 'POST', headers };
  return new Promise((resolve, reject) => {
    const request = http.request({ ...to, agent: false }, async (response) => {
      let text = '';
      for await (const chunk of response) text += chunk;
      if (response.statusCode === 200) resolve(text);
      else reject(new Error(text));
    });
    request.on('error', reject);
    request.end(body);
  });
}

function row(name, times) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share) => (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN).toFixed(2);
  return `| ${name} | ${sorted.length} | ${at(0.5)} | ${at(0.99)} | ${at(1)} |`;
}

const rows = ['| what | times | p50, ms | p99, ms | most, ms |', '|---|---|---|---|---|'];
for (const [name, withMemfw, mode] of [
  ['without the plugin', false, 'quarantine'],
  ['`quarantine`', true, 'quarantine'],
  ['`refuse`', true, 'refuse'],
]) {
  const load = os.loadavg()[0].toFixed(2);
  const times = await measured(withMemfw, mode);
  const of = (what) => times.filter((one) => one.what === what).map(({ ms }) => ms);
  assert.ok(of('write').length > 0 && of('read').length > 0 && of('start').length > 0, JSON.stringify(times.slice(0, 9)));
  rows.push(row(`${name}: a write`, of('write')));
  rows.push(row(`${name}: a read`, of('read')));
  rows.push(row(`${name}: the first start of a gateway`, of('start').slice(0, 1)));
  rows.push(row(`${name}: a later start`, of('start').slice(1)));
  console.error(`${name}: load ${load} before, ${os.loadavg()[0].toFixed(2)} after`);
}
console.log(rows.join('\n'));
process.exit();
