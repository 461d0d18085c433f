// What tests with the real OpenClaw share: a home of its own, a scripted model on the loopback interface, memfw
// as a daemon beside it, and a look at OpenClaw's own records.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import zlib from 'node:zlib';

const TURN_LIMIT = 300_000;

export const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');

export const sha256 = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');

export class Stage {
  // What the model asks for: the steps of the turn whose message it is, and all that it was shown last.
  asked = '';
  steps = [];
  shown = [];
  // The names of the tools that it was offered last.
  tools = [];
  // Tokens that the model says a request has taken.
  tokens = 100;
  // Pages by path.
  pages = {};
  // What it says where no step is left.
  says = () => 'Done.';
  // Awaited before each step.
  pause = async () => {};
  children = [];

  constructor(name, { memfw, openclaw }) {
    this.program = memfw;
    this.openclaw = openclaw;
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), `memfw-${name}-`));
    this.home = path.join(this.dir, 'home');
    this.state = path.join(this.home, '.openclaw');
    this.workspace = path.join(this.state, 'workspace');
    this.memory = path.join(this.workspace, 'MEMORY.md');
    this.config = path.join(this.dir, 'memfw', 'config');
    for (const each of [this.workspace, this.config]) fs.mkdirSync(each, { recursive: true });
    this.env = {
      PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
      HOME: this.home,
      MEMFW_HOME: path.join(this.dir, 'memfw'),
      NODE_COMPILE_CACHE: path.join(path.dirname(openclaw), '..', '.compile-cache'),
      OPENCLAW_DISABLE_BONJOUR: '1',
      NO_COLOR: '1',
    };
    for (const signal of ['SIGTERM', 'SIGINT']) {
      process.once(signal, () => {
        this.end(true);
        process.exit(1);
      });
    }
  }

  /** Starts the model and writes OpenClaw's configuration, with `more` in it. */
  async configure(more = {}) {
    this.server = http.createServer((request, response) => void this.answer(request, response));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    const model = {
      id: 'scripted',
      name: 'Scripted',
      reasoning: false,
      input: ['text'],
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
      contextWindow: 200_000,
      maxTokens: 4096,
    };
    const provider = { baseUrl: `${this.origin}/v1`, apiKey: 'none', api: 'openai-completions', models: [model] };
    const { defaults, entries, ...rest } = more;
    const settings = {
      agents: {
        defaults: { model: { primary: 'loopback/scripted' }, models: { 'loopback/scripted': {} }, ...defaults },
        ...(entries && { entries }),
      },
      models: { mode: 'replace', providers: { loopback: provider } },
      memory: { search: { provider: 'none' } },
      tools: { toolSearch: false, web: { fetch: { ssrfPolicy: { dangerouslyAllowPrivateNetwork: true } } } },
      ...rest,
    };
    fs.writeFileSync(path.join(this.state, 'openclaw.json'), JSON.stringify(settings));
  }

  /** Starts memfw and waits until it guards. */
  guard(config) {
    fs.writeFileSync(path.join(this.config, 'config.toml'), config);
    this.start(this.program, ['run'], 'memfw');
    this.memfw('status', '--wait', '60');
  }

  start(program, args, name) {
    const log = fs.openSync(path.join(this.dir, `${name}.log`), 'w');
    const child = spawn(program, args, { env: this.env, cwd: this.home, stdio: ['ignore', log, log] });
    this.children.push(child);
    return child;
  }

  memfw(...args) {
    const { status, stdout, stderr } = spawnSync(this.program, args, { env: this.env, encoding: 'utf8' });
    assert.equal(status, 0, `memfw ${args.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  }

  json(...args) {
    const { stdout } = spawnSync(this.program, [...args, '--json'], { env: this.env, encoding: 'utf8' });
    return JSON.parse(stdout);
  }

  /** Runs a command of OpenClaw: its status and all that it says. */
  async claw(...args) {
    const child = spawn(process.execPath, [this.openclaw, ...args], { env: this.env, cwd: this.home });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => { output += chunk; });
    const timer = setTimeout(() => child.kill('SIGKILL'), TURN_LIMIT);
    const status = await new Promise((resolve) => child.on('close', resolve));
    clearTimeout(timer);
    return { status, output };
  }

  /** One turn of the agent; what the model was shown at its end. A session of its own where none is named. */
  async turn(message, steps, session = crypto.randomUUID()) {
    this.asked = message;
    this.steps = steps;
    this.shown = [];
    const { status, output } = await this.claw(
      'agent', '--local', '--agent', 'main', '--session-id', session, '--message', message);
    assert.equal(status, 0, `openclaw agent: ${output.slice(-2000)}`);
    assert.ok(this.shown.length > 0, 'the agent did not ask the model');
    return this.shown.map((each) => textOf(each.content)).join('\n');
  }

  /** Which step comes next; nothing where all are done. */
  next(messages) {
    // OpenClaw adds user messages of its own.
    const user = messages.findLastIndex(({ role, content }) => role === 'user' && textOf(content).includes(this.asked));
    const done = messages.slice(user + 1).filter((message) => message.role === 'assistant').length;
    return user < 0 ? undefined : this.steps[done];
  }

  /** Answers one request as a model does that speaks the chat-completions protocol, or with a page. */
  async answer(request, response) {
    let raw = '';
    for await (const chunk of request) raw += chunk;
    if (request.url in this.pages) {
      response.setHeader('content-type', 'text/html');
      response.end(this.pages[request.url]);
      return;
    }
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model' }] }));
      return;
    }
    const { messages, model, stream, tools } = JSON.parse(raw);
    this.shown = messages;
    this.tools = (tools ?? []).map((tool) => tool.function?.name ?? '');
    const step = this.next(messages);
    if (step) await this.pause();
    const call = step && {
      index: 0,
      id: `call${crypto.randomUUID().replaceAll('-', '')}`,
      type: 'function',
      function: { name: step.tool, arguments: JSON.stringify(step.args) },
    };
    const message = call
      ? { role: 'assistant', content: null, tool_calls: [call] }
      : { role: 'assistant', content: this.says(messages) };
    const finish_reason = call ? 'tool_calls' : 'stop';
    const usage = { prompt_tokens: this.tokens, completion_tokens: 10, total_tokens: this.tokens + 10 };
    const base = { id: crypto.randomUUID(), created: Math.floor(Date.now() / 1000), model };
    if (!stream) {
      response.setHeader('content-type', 'application/json');
      const choices = [{ index: 0, message, finish_reason }];
      response.end(JSON.stringify({ ...base, object: 'chat.completion', choices, usage }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (delta, reason, more) => {
      const choices = [{ index: 0, delta, finish_reason: reason }];
      const chunk = { ...base, object: 'chat.completion.chunk', choices, ...more };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    send(message, null);
    send({}, finish_reason, { usage });
    response.end('data: [DONE]\n\n');
  }

  /** What OpenClaw has on record about a file. */
  record(file = 'MEMORY.md') {
    const database = new DatabaseSync(path.join(this.state, 'state', 'openclaw.sqlite'), { readOnly: true });
    const rows = database
      .prepare("SELECT value_json FROM plugin_state_entries WHERE plugin_id = 'core:memory-artifact-provenance'")
      .all();
    database.close();
    return rows.map((row) => JSON.parse(row.value_json)).find((row) => row.relativePath === file);
  }

  /** All events of OpenClaw's transcripts. */
  transcripts() {
    const agent = path.join(this.state, 'agents', 'main', 'agent', 'openclaw-agent.sqlite');
    const database = new DatabaseSync(agent, { readOnly: true });
    const rows = database.prepare('SELECT event_json, event_zstd FROM transcript_events').all();
    database.close();
    return rows.map((row) => JSON.parse(row.event_json ?? zlib.zstdDecompressSync(row.event_zstd).toString()));
  }

  /** All results of tools in them. */
  results() {
    const messages = this.transcripts().map((event) => event.message);
    return messages.filter((message) => message?.role === 'toolResult');
  }

  /** Ends everything; what was written stays where that is wanted. */
  end(keep) {
    for (const child of this.children) child.kill('SIGTERM');
    this.children = [];
    this.server?.closeAllConnections();
    this.server?.close();
    if (keep) console.log(`kept: ${this.dir}`);
    // A gateway that ends still writes.
    else fs.rmSync(this.dir, { recursive: true, maxRetries: 40, retryDelay: 50 });
  }
}
