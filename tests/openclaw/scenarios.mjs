// Scenarios played from end to end: what an agent read in one session and wrote into its memory, and whether the
// next session's prompt still holds it.
//
//   node scenarios.mjs --memfw PROGRAM --openclaw openclaw.mjs --scenarios FILE.jsonl [--turns 60] [--only ID,...]
//     [--follow edits|validated] [--without] [--results FILE] [--keep]
//
// One gateway, one `memfw run`. Each scenario has an agent of its own, so that no entry stands beside another's. The
// owner's message is what was `asked`; the scripted model calls the tool that gets `origin`, then writes `memory` into
// MEMORY.md with `edit` or `write`, in turn. memfw settles, and a new session of that agent shows its prompt.
// `--without` plays the same with no memfw beside it: what OpenClaw does by itself.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { freePort } from './gateway.mjs';
import { Stage, textOf } from './stage.mjs';
import { report } from './scenarios-report.mjs';

const { values: options } = parseArgs({
  options: {
    memfw: { type: 'string' },
    openclaw: { type: 'string' },
    scenarios: { type: 'string' },
    turns: { type: 'string', default: '60' },
    only: { type: 'string' },
    follow: { type: 'string', default: 'edits' },
    without: { type: 'boolean', default: false },
    results: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

// What stands in each MEMORY.md before: where it is in the prompt, OpenClaw has loaded the file.
const ANCHOR = '- Prefers short answers, metric units and 24-hour times.';
const BEFORE = `# Memory\n\n${ANCHOR}\n`;
const GREETING = 'Good morning, what is on today?';
const GATEWAY_LIMIT = 240_000;
const ANSWER_LIMIT = 120_000;

const kindOf = ({ source }) => source.slice(0, source.indexOf(':'));
const detailOf = ({ source }) => source.slice(source.indexOf(':') + 1);
const escaped = (text) => text.replace(/[&<>]/g, (found) => `&#${found.codePointAt(0)};`);

/**
 * How a scenario is played: the message, the session of a hook where nobody asked, the tool that gets the foreign text,
 * where that text lies, and the source that memfw should find. Nothing where there is no way to play it.
 */
function way({ id, asked, source, origin }) {
  const detail = detailOf({ source });
  switch (asked ? kindOf({ source }) : `${kindOf({ source })}, unasked`) {
    case 'web_fetch': {
      const url = `http://${detail}/${id}`;
      const lines = origin.split('\n').map((line) => `<p>${escaped(line)}</p>`).join('');
      const page = `<html><head><title>${detail}</title></head><body><article>${lines}</article></body></html>`;
      const step = { tool: 'web_fetch', args: { url } };
      return { message: asked, step, page: { url, text: page }, expected: `web_fetch:${detail}` };
    }
    case 'file': {
      const step = { tool: 'read', args: { path: detail } };
      return { message: asked, step, file: { name: detail, text: `${origin}\n` }, expected: `file:${detail}` };
    }
    case 'exec': {
      const step = { tool: 'exec', args: { command: detail } };
      return { message: asked, step, program: { name: detail.split(' ')[0], text: origin }, expected: 'exec' };
    }
    // OpenClaw has no tool for mail: its skill has the agent run this program.
    case 'mail': {
      const step = { tool: 'exec', args: { command: `himalaya message read ${id.replace(/\D/g, '')}` } };
      const text = `From: ${detail}\nDate: Mon, 04 May 2026 08:12:00 +0000\n\n${origin}`;
      return { message: asked, step, program: { name: 'himalaya', text }, expected: 'exec' };
    }
    case 'mail, unasked': {
      const message = `New email from ${detail}\n${origin}`;
      return { message, hook: `hook:mail:${id}`, expected: 'webhook' };
    }
    case 'webhook, unasked':
      return { message: origin, hook: `hook:${detail}:${id}`, expected: 'webhook' };
    case 'chat':
    case 'chat, unasked':
      // Other people write through channels, and those want a service outside.
      if (detail !== 'owner') return undefined;
      return { message: asked ? `${asked}\n${origin}` : origin, expected: 'user:owner' };
    default:
      return undefined;
  }
}

class Theatre extends Stage {
  // Messages of the last request of the turn that is on, and of its first.
  first = [];
  last = [];
  // Pages of the hosts outside, by address.
  sites = {};

  workspaceOf(id) {
    return path.join(this.state, `workspace-${id.toLowerCase()}`);
  }

  /** Puts the foreign text where the agent's tool finds it. */
  layOut({ id }, { page, file, program }) {
    if (page) this.sites[page.url] = page.text;
    if (file) {
      const at = path.join(this.workspaceOf(id), file.name);
      assert.ok(at.startsWith(`${this.workspaceOf(id)}${path.sep}`), 'the file is outside of the workspace');
      fs.mkdirSync(path.dirname(at), { recursive: true });
      fs.writeFileSync(at, file.text);
    }
    if (program) {
      const at = path.join(this.bin, path.basename(program.name));
      fs.writeFileSync(`${at}.txt`, `${program.text}\n`);
      fs.writeFileSync(at, `#!/bin/sh\ncat '${at}.txt'\n`, { mode: 0o755 });
    }
  }

  next(messages) {
    const user = messages.findLastIndex(({ role, content }) => role === 'user' && textOf(content).includes(this.asked));
    if (user < 0) return undefined;
    if (this.first.length === 0) this.first = messages;
    this.last = messages.slice(user + 1);
    const done = this.last.filter(({ role }) => role === 'assistant').length;
    return this.steps[done];
  }

  expect(message, steps) {
    // OpenClaw puts its own words around a message, and keeps its lines.
    this.asked = message.split('\n')[0];
    this.steps = steps;
    this.first = [];
    this.last = [];
  }

  /** A connection of its own: one that is kept ends while memfw is waited for. */
  async post(url, token, body) {
    const { status, text } = await new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const options = { host: '127.0.0.1', port: this.gateway, path: url, method: 'POST', headers, agent: false };
      const request = http.request({ ...options, signal: AbortSignal.timeout(ANSWER_LIMIT) }, async (response) => {
        let all = '';
        for await (const chunk of response) all += chunk;
        resolve({ status: response.statusCode, text: all });
      });
      request.on('error', reject);
      request.end(JSON.stringify(body));
    });
    assert.equal(status, 200, `${url}: ${text.slice(0, 500)}`);
  }

  /** One turn in a session of its own, asked for by the owner. */
  async say(agent, message, steps) {
    this.expect(message, steps);
    await this.post('/v1/chat/completions', this.token,
      { model: `openclaw/${agent}`, messages: [{ role: 'user', content: message }] });
    assert.ok(this.first.length > 0, 'the agent did not ask the model');
  }

  /** One turn that nobody asked for. */
  async ring(agent, message, sessionKey, steps) {
    this.expect(message, steps);
    await this.post('/hooks/agent', this.hookToken,
      { message, name: 'Hook', agentId: agent, sessionKey, deliver: false, waitForCompletion: true });
    assert.ok(this.first.length > 0, 'the agent did not ask the model');
  }
}

/** The hosts of the scenarios, as a proxy. */
async function proxyOf(pages) {
  const server = http.createServer((request, response) => {
    const url = request.url.startsWith('/') ? `http://${request.headers.host}${request.url}` : request.url;
    response.writeHead(url in pages ? 200 : 404, { 'content-type': 'text/html; charset=utf-8' });
    response.end(pages[url] ?? '');
  });
  server.on('connect', (request, socket) => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    server.emit('connection', socket);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function ready(stage, gateway) {
  const started = Date.now();
  for (;;) {
    assert.equal(gateway.exitCode, null, 'the gateway has ended');
    assert.ok(Date.now() - started < GATEWAY_LIMIT, 'the gateway is not ready');
    const ok = await fetch(`http://127.0.0.1:${stage.gateway}/health`).then(({ status }) => status < 500, () => false);
    if (ok) return;
    await sleep(500);
  }
}

/** Lines of an entry as they are compared: without bullets and blanks around. */
const linesOf = (memory) =>
  memory.split('\n').map((line) => line.replace(/^[\s>*+-]+/, '').trim()).filter((line) => line.length > 0);

/** How much of an entry a text holds. */
function held(memory, text) {
  const lines = linesOf(memory);
  const found = lines.filter((line) => text.includes(line)).length;
  return found === lines.length ? 'whole' : found > 0 ? 'part' : 'none';
}

/** What memfw says about the entry: its sources, and whether any of it is out. */
function found(stage, scenario, file) {
  const text = fs.readFileSync(file, 'utf8').split('\n');
  const rows = stage.json('provenance', file).filter(({ start_line, end_line }) =>
    linesOf(scenario.memory).some((line) => text.slice(start_line - 1, end_line).some((one) => one.includes(line))));
  const items = stage.json('quarantine', 'list').filter((item) => item.file === file);
  const short = ({ source, trust, state, status, codes, fed_by, score }) =>
    ({ source, trust, state: state ?? status, codes, fed_by, score });
  return [...rows.map(short), ...items.map(short)];
}

/** One scenario from its message to the next session's prompt. */
async function play(stage, scenario, how, number) {
  const agent = scenario.id.toLowerCase();
  const file = path.join(stage.workspaceOf(scenario.id), 'MEMORY.md');
  const entry = /^[-*] /.test(scenario.memory) ? scenario.memory : `\n${scenario.memory}`;
  const tool = number % 2 === 0 ? 'edit' : 'write';
  const write = tool === 'edit'
    ? { tool, args: { path: 'MEMORY.md', edits: [{ oldText: ANCHOR, newText: `${ANCHOR}\n${entry}` }] } }
    : { tool, args: { path: 'MEMORY.md', content: `${BEFORE}${entry}\n` } };
  const steps = how.step ? [how.step, write] : [write];
  stage.layOut(scenario, how);
  if (how.hook) await stage.ring(agent, how.message, how.hook, steps);
  else await stage.say(agent, how.message, steps);
  const results = stage.last.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
  assert.equal(results.length, steps.length, `${results.length} of ${steps.length} calls were made`);
  assert.match(results.at(-1), /^Successfully/, 'the write failed');
  if (how.step) {
    const word = scenario.origin.split(/\s+/).find((each) => /^[a-z]{5,}$/i.test(each)) ?? scenario.origin[0];
    assert.ok(results[0].includes(word), `the tool did not give the text: ${results[0].slice(0, 300)}`);
  }
  const settled = Date.now();
  if (!options.without) stage.memfw('settle', '90');
  const settle = Date.now() - settled;
  const sources = options.without ? [] : found(stage, scenario, file);
  const inFile = held(scenario.memory, fs.readFileSync(file, 'utf8'));
  await stage.say(agent, GREETING, []);
  const prompt = stage.first.map(({ content }) => textOf(content)).join('\n');
  const memory = fs.readFileSync(file, 'utf8');
  return {
    id: scenario.id,
    label: scenario.label,
    kind: `${kindOf(scenario)}${how.hook ? ', unasked' : ''}`,
    expected: how.expected,
    tool,
    file: inFile,
    prompt: held(scenario.memory, prompt),
    loaded: prompt.includes(ANCHOR),
    sources,
    settle,
    memory,
  };
}

const all = fs.readFileSync(options.scenarios, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const stage = new Theatre('scenarios', options);
// Programs that print a foreign text, before all others in the agent's path.
stage.bin = path.join(stage.dir, 'bin');
fs.mkdirSync(stage.bin);
let failed = true;
let proxy;
try {
  const playable = all.filter(way);
  const left = all.filter((scenario) => !way(scenario));
  const only = options.only?.split(',');
  const chosen = only ? playable.filter(({ id }) => only.includes(id)) : playable.slice(0, Number(options.turns));
  if (chosen.length === 0) throw new Error('there is nothing to play: look at --only and --turns');
  const entries = { main: { default: true, workspace: stage.workspace } };
  for (const { id } of chosen) {
    const workspace = stage.workspaceOf(id);
    fs.mkdirSync(path.join(workspace, 'memory'), { recursive: true });
    fs.writeFileSync(path.join(workspace, 'MEMORY.md'), BEFORE);
    entries[id.toLowerCase()] = { workspace };
  }
  proxy = await proxyOf(stage.sites);
  stage.gateway = await freePort();
  [stage.token, stage.hookToken] = [crypto.randomUUID(), crypto.randomUUID()];
  stage.env.OPENCLAW_GATEWAY_TOKEN = stage.token;
  const via = `http://127.0.0.1:${proxy.address().port}`;
  const direct = '127.0.0.1,localhost';
  Object.assign(stage.env, { HTTP_PROXY: via, http_proxy: via, NO_PROXY: direct, no_proxy: direct });
  await stage.configure({
    gateway: {
      mode: 'local', bind: 'loopback', port: stage.gateway, auth: { mode: 'token', token: '${OPENCLAW_GATEWAY_TOKEN}' },
      http: { endpoints: { chatCompletions: { enabled: true } } },
    },
    hooks: { enabled: true, token: stage.hookToken, allowRequestSessionKey: true },
    tools: {
      toolSearch: false,
      web: { fetch: { useTrustedEnvProxy: true } },
      exec: { pathPrepend: [stage.bin] },
    },
    // Files that OpenClaw lays out in a new workspace would be new to memfw as well, in each turn.
    defaults: { skipBootstrap: true },
    entries,
  });
  if (!options.without) stage.guard(`[agent]\nfollow = "${options.follow}"\n`);
  const gateway = stage.start(process.execPath, [stage.openclaw, 'gateway', 'run'], 'gateway');
  await ready(stage, gateway);
  const results = [];
  if (options.results) fs.writeFileSync(options.results, '');
  const broken = [];
  for (const [number, scenario] of chosen.entries()) {
    const started = Date.now();
    try {
      const result = await play(stage, scenario, way(scenario), number);
      results.push(result);
      if (options.results) fs.appendFileSync(options.results, `${JSON.stringify(result)}\n`);
      const prompt = result.loaded ? result.prompt : 'not loaded';
      const what = `${result.label} ${result.kind}: file ${result.file}, prompt ${prompt}`;
      const from = [...new Set(result.sources.map(({ source, state }) => `${source} ${state}`))].join('; ');
      console.error(`${scenario.id} ${what}, ${from} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    } catch (error) {
      broken.push(`${scenario.id}: ${error.message}`);
      console.error(`${scenario.id} FAILED: ${error.message}`);
      if (gateway.exitCode !== null) throw error;
    }
  }
  console.log(report(results, { left, broken, total: all.length, playable: playable.length }));
  failed = broken.length > 0;
} finally {
  proxy?.closeAllConnections();
  proxy?.close();
  stage.end(failed || options.keep);
}
process.exitCode = failed ? 1 : 0;
