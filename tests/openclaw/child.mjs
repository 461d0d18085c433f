// memfw's plugin for OpenClaw with children that do what memfw never does, and with events that OpenClaw never sends:
// nothing is thrown, calls go on, a hung child is replaced, and what waits for it is bounded.
//
//   node child.mjs
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const source = path.join(path.dirname(new URL(import.meta.url).pathname), '../../integrations/openclaw');
const dir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'memfw-child-')));
const own = path.join(dir, 'own');
const workspace = path.join(dir, 'workspace');
const plugin = path.join(dir, 'plugin');
for (const each of [own, workspace, plugin]) fs.mkdirSync(each);
for (const name of fs.readdirSync(source).filter((name) => name.endsWith('.js') || name.endsWith('.json'))) {
  fs.copyFileSync(path.join(source, name), path.join(plugin, name));
}
const installed = { program: path.join(dir, 'memfw'), env: { HOME: dir, MEMFW_HOME: '/fixed' }, own: [own] };
fs.writeFileSync(path.join(plugin, 'program.json'), JSON.stringify(installed));

const thrown = [];
process.on('uncaughtException', (error) => thrown.push(error));
process.on('unhandledRejection', (error) => thrown.push(error));

const { default: memfw } = await import(path.join(plugin, 'index.js'));
const context = { agentId: 'main', sessionKey: 's', runId: 'r', workspaceDir: workspace };

/** A program that runs this script for each line that it reads; `answer(line, words)` answers one. */
function child(name, script) {
  const file = path.join(dir, name);
  fs.writeFileSync(
    file,
    `#!${process.execPath}
const fs = require('node:fs');
const say = (words) => process.stdout.write(JSON.stringify(words) + '\\n');
const refuse = (id) => say({ id, type: 'verdict', decision: 'refuse', reason: { what: 'w', codes: ['c'], text: 'no' } });
const greet = (id) => say({ id, type: 'hello', version: 1 });
const on = (line) => process.nextTick(() => {
  const { id, type } = JSON.parse(line);
  ${script}
});
let rest = '';
process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = (rest + text).split('\\n');
  rest = lines.pop();
  lines.forEach(on);
});
process.stdin.on('end', () => process.exit());
`,
    { mode: 0o755 },
  );
  return file;
}

/** The plugin as OpenClaw has it: its hooks, and what it warns of. */
function started(config, copy = memfw) {
  const hooks = {};
  const warnings = [];
  copy.register({
    pluginConfig: { timeoutMs: 2000, ...config },
    logger: { warn: (text) => warnings.push(text) },
    on: (name, hook) => { hooks[name] = hook; },
  });
  const call = (params, tool = 'write') => hooks.before_tool_call({ toolName: tool, params }, context);
  return { hooks, warnings, call };
}

async function until(what, done, limit = 30_000) {
  const end = Date.now() + limit;
  for (let found; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    found = await done();
    if (found) return found;
  }
  throw new Error(`no ${what}`);
}

const isThere = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const write = { path: 'MEMORY.md', content: '- x\n' };

process.exitCode = 1;
try {
  // Lines that memfw never says.
  for (const [at, words] of [
    'null', '5', '[]', 'x', '{"id":1}', '{"id":{},"type":"verdict"}',
    '{"id":1,"type":"verdict","decision":"refuse"}', '{"id":1,"type":"verdict","decision":"ask","reason":{"what":1}}',
    '{"id":1,"type":"recalled","texts":[null]}', '{"id":1,"type":"verdict","decision":{}}', '{"id":1,"type":"told"}', '{"id":1,"type":"told","text":{}}',
  ].entries()) {
    const program = child(`wrong-${at}`, `process.stdout.write(${JSON.stringify(`${words}\n`)});`);
    const { call, warnings } = started({ program });
    assert.equal(await call(write), undefined, words);
    assert.equal(warnings.length, 1, `${words}: ${warnings}`);
    assert.match(warnings[0], /memfw link is down/);
  }

  // Events that OpenClaw never sends, and the end of the gateway.
  child('memfw', `
    fs.appendFileSync(${JSON.stringify(path.join(dir, 'lines'))}, line + '\\n');
    fs.writeFileSync(${JSON.stringify(path.join(dir, 'env'))}, JSON.stringify(process.env));
    fs.writeFileSync(${JSON.stringify(path.join(dir, 'pid'))}, String(process.pid));
    if (type === 'hello') greet(id); else refuse(id);`);
  process.env.MEMFW_HOME = '/from-a-dot-env';
  const { hooks, warnings, call } = started({});
  for (const event of [undefined, null, 5, {}, { toolName: 'write' }, { toolName: 'write', params: null },
    { toolName: 5, params: {} }, { toolName: 'edit', params: { path: 'x', edits: [null, 5] } },
    { toolName: 'x', params: undefined, result: { content: [null, 5], details: 'x' }, error: {} }]) {
    for (const of of [undefined, null, {}, { ...context, requester: 5, sessionKey: {} }]) {
      for (const hook of ['model_call_started', 'before_tool_call', 'after_tool_call']) await hooks[hook](event, of);
    }
  }
  assert.deepEqual(warnings, []);

  // What is no character reaches memfw as the file has it.
  const half = 'hello \ud83d';
  await hooks.after_tool_call(
    { toolName: half, params: { query: half }, result: { content: [{ text: half }] } },
    context,
  );
  const refused = await call({ path: 'MEMORY.md', content: `${half}\n` });
  assert.deepEqual(refused, { block: true, blockReason: 'no' });
  const lines = fs.readFileSync(path.join(dir, 'lines'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.ok(lines.every((line) => JSON.stringify(line).isWellFormed() && !/\\u[dD][89a-fA-F]/.test(JSON.stringify(line))));
  assert.equal(lines.at(-1).change.write, 'hello \ufffd\n');
  assert.equal(lines.at(-1).heard.at(-1).passage, 'hello \ufffd');

  // OpenClaw loads copies of the plugin, and a run may meet the hooks of several.
  const copy = path.join(dir, 'copy');
  fs.cpSync(plugin, copy, { recursive: true });
  const other = started({}, (await import(path.join(copy, 'index.js'))).default);
  await other.hooks.after_tool_call({ toolName: 'other', params: {}, result: 'heard by a copy' }, context);
  await call(write);
  const last = fs.readFileSync(path.join(dir, 'lines'), 'utf8').trim().split('\n').at(-1);
  assert.equal(JSON.parse(last).heard.at(-1).passage, 'heard by a copy');

  // The environment is that of the installation.
  const env = JSON.parse(fs.readFileSync(path.join(dir, 'env'), 'utf8'));
  assert.deepEqual([env.MEMFW_HOME, env.HOME, env.PATH], ['/fixed', dir, undefined]);

  // The end of the gateway is no failure.
  const pid = Number(fs.readFileSync(path.join(dir, 'pid'), 'utf8'));
  hooks.gateway_stop();
  await until('end of the child', () => !isThere(pid));
  assert.deepEqual(warnings, []);

  // Calls that would change memfw itself are refused, with and without a child.
  fs.symlinkSync(own, path.join(workspace, 'notes'));
  const dead = started({ program: path.join(dir, 'nothing') });
  const patch = (header) => [{ input: `*** Begin Patch\n${header}\n+x\n*** End Patch` }, 'apply_patch'];
  for (const [params, tool] of [
    [{ path: path.join(own, 'config.toml'), content: '' }],
    [{ path: `@${own}/new/rules.toml`, content: '' }],
    [{ path: `file://${own}/config.toml`, content: '' }],
    [{ path: `${own}/config.toml</arg_value>>`, content: '' }],
    [{ path: '../own/config.toml', content: '' }],
    [{ path: 'notes/config.toml', content: '' }],
    [{ path: 'a.txt', file_path: path.join(own, 'config.toml'), content: '' }],
    [{ path: path.join(plugin, 'program.json'), content: '{}' }],
    [{ path: path.join(own, 'config.toml'), edits: [{ oldText: 'refuse', newText: 'quarantine' }] }, 'edit'],
    patch(` *** Update File: ${own}/config.toml`),
    patch(`*** Delete File: ${own}/config.toml`),
    patch(`*** Update File: a.txt\n*** Move to: ${own}/config.toml`),
    patch(`*** Add File: x\u2028/../../own/config.toml`),
    // OpenClaw shortens these.
    [{ path: `${own}/config.toml</arg_value>${'>'.repeat(13_000)}`, content: '' }],
    [{ path: `${'./'.repeat(7_000)}../own/config.toml`, content: '' }],
  ]) {
    const answer = await dead.call(params, tool);
    assert.match(answer?.blockReason ?? '', /files of memfw itself \(own-files\)/, JSON.stringify(params));
  }
  for (const file of ['own/config.toml', '../ownership/a', path.join(dir, 'own.toml')]) {
    assert.equal(await dead.call({ path: file, content: '' }), undefined, file);
  }

  // A patch is one question, whatever number of files it names.
  const asked = path.join(dir, 'asked');
  const checks = child('checks', `
    if (type === 'check') fs.appendFileSync(${JSON.stringify(asked)}, line + '\\n');
    if (type === 'hello') greet(id); else refuse(id);`);
  const many = Array.from({ length: 100 }, (_, n) => `*** Add File: memory/${n}.md\n+x`).join('\n');
  const whole = started({ program: checks });
  assert.deepEqual(await whole.call(...patch(many)), { block: true, blockReason: 'no' });
  const questions = fs.readFileSync(asked, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(questions.map((one) => [one.path, one.change]), [['', { patch: patch(many)[0].input }]]);
  await whole.call(...patch('*** Add File: memory/1.md'));
  assert.equal(JSON.parse(fs.readFileSync(asked, 'utf8').trim().split('\n').at(-1)).path, 'memory/1.md');
  whole.hooks.gateway_stop();

  // The owner is asked about all of it.
  const asks = child('asks', `
    fs.appendFileSync(${JSON.stringify(asked)}, line + '\\n');
    if (type === 'hello') greet(id);
    else if (type === 'check') say({ id, type: 'verdict', decision: 'ask', reason: { what: 'w', codes: ['c'], text: 'no' } });`);
  const doubtful = started({ program: asks });
  for (const [params, title] of [[patch(many), 'Write to 100 files?'], [[write, 'write'], 'Write to MEMORY.md?'],
    [[{ input: 'no patch' }, 'apply_patch'], 'Write to memory?']]) {
    const { requireApproval } = await doubtful.call(...params);
    assert.equal(requireApproval.title, title);
    // The answer is told, for the audit.
    const last = () => JSON.parse(fs.readFileSync(asked, 'utf8').trim().split('\n').at(-1));
    const check = last().id;
    requireApproval.onResolution('deny');
    await until('answer', () => last().type === 'resolved');
    assert.deepEqual([last().check, last().decision], [check, 'deny']);
  }
  doubtful.hooks.gateway_stop();

  // The limit is that of the whole call, also where the child says nothing, and names are no way to spend time.
  const silent = started({ program: child('silent', `if (type === 'hello') greet(id);`), timeoutMs: 200 });
  const deep = 'a/'.repeat(500_000);
  for (const params of [
    patch(many), patch(`*** Add File: ${deep}`), [{ path: deep, content: '' }],
    patch(Array.from({ length: 300 }, (_, n) => `*** Add File: ${n}/${'a/'.repeat(1500)}`).join('\n')),
  ]) {
    const begun = performance.now();
    // A name that is longer than a path is refused at once.
    const isDeep = JSON.stringify(params).includes(deep);
    assert.equal((await silent.call(...params))?.block, isDeep ? true : undefined);
    const took = performance.now() - begun;
    assert.ok(took < 5000, `${took} ms`);
  }
  silent.hooks.gateway_stop();

  // A hung child: what waits for it is bounded, it is replaced, and the owner is told once.
  const hung = path.join(dir, 'hung');
  const program = child('stops', `
    const stop = !fs.existsSync(${JSON.stringify(hung)});
    if (type === 'hello') greet(id);
    else if (!stop) refuse(id);
    if (stop) { fs.writeFileSync(${JSON.stringify(hung)}, String(process.pid)); process.kill(process.pid, 'SIGSTOP'); }`);
  const slow = started({ program, timeoutMs: 30 });
  slow.hooks.model_call_started({}, context);
  await until('stopped child', () => fs.existsSync(hung) && fs.readFileSync(hung, 'utf8'));
  const stopped = Number(fs.readFileSync(hung, 'utf8'));
  const big = { path: 'MEMORY.md', content: 'x'.repeat(1 << 20) };
  const before = process.memoryUsage().external + process.memoryUsage().heapUsed;
  for (let n = 0; n < 40; n += 1) assert.equal(await slow.call(big), undefined);
  const grown = process.memoryUsage().external + process.memoryUsage().heapUsed - before;
  assert.ok(slow.warnings.some((text) => text.includes('does not keep up')), slow.warnings.join());
  assert.ok(grown < 40 << 20, `${grown} bytes more`);
  const answer = await until('new child', () => slow.call(write));
  assert.deepEqual(answer, { block: true, blockReason: 'no' });
  assert.ok(!isThere(stopped), 'the stopped child is still there');
  assert.equal(slow.warnings.filter((text) => text.includes('it did not answer')).length, 1, slow.warnings.join());
  assert.equal(slow.warnings.length, 2, slow.warnings.join());
  slow.hooks.gateway_stop();
  assert.deepEqual(thrown, []);
  console.log('children and events that are wrong stop no call, and no call changes memfw');
  process.exitCode = 0;
} catch (error) {
  // Exceptions that nobody catches are collected above, so this one has to be reported here.
  console.error(error);
} finally {
  fs.rmSync(dir, { recursive: true, force: true });
  process.exit();
}
