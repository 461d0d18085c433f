// The child process `memfw link`: JSON lines on its standard input and output (docs/link.md).
//
// Whatever happens to the child, a call only waits for its own limit, and goes on without a verdict.
import { spawn, type ChildProcess } from 'node:child_process';

import { lineOf, record, string } from './checked.js';

/** The version of the protocol. */
const VERSION = 1;
/** Most calls that wait at the same time. */
const MAX_WAITING = 32;
/** Most bytes that wait for the child to read them: its longest line. While there are more, calls are not checked. */
const MAX_BUFFERED = 8 << 20;
/** Longest reply: texts of memory with at most 2 MiB, escaped. */
const MAX_REPLY = 8 << 20;
/** Time before the child is started again: doubled with each failure. */
const BACK_OFF = { first: 250, most: 60_000 };
/** When a child counts as hung: so many calls in a row got no answer in time, and it has said nothing for so long, in
 * milliseconds. A call mostly waits much shorter than a busy child needs, and the first words of one take longest. */
const HUNG = { missed: 3, silent: 5000, starting: 60_000 };
/** How long a child may take to end, in milliseconds. */
const END_LIMIT = 2000;

export interface Reason {
  what: string;
  codes: string[];
  text: string;
}

/** A text of memory in the form in which it may reach the model. */
export interface Recalled {
  handing: 'replace' | 'keep' | 'drop';
  text?: string;
}

export interface Reply {
  id: number | null;
  type: string;
  texts?: Recalled[];
  decision?: string;
  reason?: Reason;
  code?: string;
  text?: string;
  offers?: string[];
}

/** A line of the child; nothing if it is none of memfw. */
export function replyOf(line: string): Reply | undefined {
  let value;
  try {
    value = record(JSON.parse(line));
  } catch {
    return undefined;
  }
  const type = string(value?.type);
  if (!value || type === undefined || !(value.id === null || Number.isSafeInteger(value.id))) return undefined;
  const reply: Reply = { id: value.id as number | null, type };
  if (type === 'error') reply.code = string(value.code) ?? '';
  if (type === 'told') {
    const text = string(value.text);
    if (text === undefined) return undefined;
    reply.text = text;
    reply.offers = Array.isArray(value.offers) ? value.offers.filter((words) => typeof words === 'string') : [];
  }
  if (type === 'news') {
    const text = string(value.text);
    if (text !== undefined) reply.text = text;
    reply.offers = Array.isArray(value.offers) ? value.offers.filter((words) => typeof words === 'string') : [];
  }
  if (type === 'recalled') {
    if (!Array.isArray(value.texts) || !value.texts.every(isRecalled)) return undefined;
    reply.texts = value.texts;
  }
  if (type === 'verdict') {
    const decision = string(value.decision);
    if (!decision || !['allow', 'refuse', 'ask'].includes(decision)) return undefined;
    reply.decision = decision;
    if (decision === 'allow') return reply;
    const { what, text, codes } = record(value.reason) ?? {};
    if (typeof what !== 'string' || typeof text !== 'string' || !Array.isArray(codes)) return undefined;
    reply.reason = { what, text, codes: codes.map(String) };
  }
  return reply;
}

function isRecalled(value: unknown): value is Recalled {
  const { handing, text } = record(value) ?? {};
  return handing === 'replace' ? typeof text === 'string' : handing === 'keep' || handing === 'drop';
}

export class Link {
  private readonly program: string;
  private readonly env: NodeJS.ProcessEnv;
  private readonly warn: (text: string) => void;
  private child: ChildProcess | undefined;
  private waiting = new Map<number, (reply: Reply | undefined) => void>();
  private rest = '';
  private next = 1;
  private failures = 0;
  private notBefore = 0;
  private isGreeted = false;
  private isFull = false;
  private missed = 0;
  /** Since when the child has said nothing to what it was asked. */
  private silentSince: number | undefined;

  constructor(program: string, env: NodeJS.ProcessEnv, warn: (text: string) => void) {
    this.program = program;
    this.env = env;
    this.warn = warn;
  }

  /** Starts the child, if it is not there and its back-off is over. */
  start(): boolean {
    if (this.child) return true;
    if (Date.now() < this.notBefore) return false;
    // An argument vector, never a shell.
    let child: ChildProcess;
    try {
      child = spawn(this.program, ['link'], { env: this.env, stdio: ['pipe', 'pipe', 'ignore'] });
    } catch (error) {
      this.rested(String(error));
      return false;
    }
    this.child = child;
    this.rest = '';
    this.isGreeted = false;
    this.isFull = false;
    this.missed = 0;
    this.silentSince = undefined;
    child.once('error', (error) => this.ended(child, error.message));
    child.once('exit', (code, signal) => this.ended(child, `it ended with ${signal ?? code}`));
    // An exit says more than a broken pipe.
    child.stdin!.on('error', () => undefined);
    child.stdout!.setEncoding('utf8');
    child.stdout!.on('error', () => undefined);
    child.stdout!.on('data', (text: string) => this.read(child, text));
    // The child never keeps the agent alive; it ends when its standard input does.
    child.unref();
    for (const stream of [child.stdin, child.stdout] as unknown as { unref?: () => void }[]) stream.unref?.();
    this.send({ id: 0, type: 'hello', version: VERSION, client: 'openclaw' });
    return true;
  }

  /** Says something that needs no answer. */
  tell(type: string, body: object): void {
    if (this.child) this.send({ id: this.next++, type, ...body });
  }

  /** Asks memfw; nothing if there is no answer in time. */
  ask(type: string, body: object, timeoutMs: number): Promise<Reply | undefined> {
    if (this.waiting.size >= MAX_WAITING || !this.start()) return Promise.resolve(undefined);
    const id = this.next++;
    return new Promise((resolve) => {
      const done = (reply: Reply | undefined) => {
        clearTimeout(timer);
        this.waiting.delete(id);
        resolve(reply);
      };
      const missed = () => {
        if (!this.waiting.has(id)) return;
        done(undefined);
        this.miss();
      };
      // A reply may have come while something else kept the agent busy: it is read before the call goes on.
      const timer = setTimeout(() => setImmediate(missed), timeoutMs);
      this.waiting.set(id, done);
      if (!this.send({ id, type, deadline_ms: timeoutMs, ...body })) missed();
    });
  }

  /** Ends the child, for which nothing is down. */
  stop(): void {
    const { child } = this;
    this.child = undefined;
    for (const done of [...this.waiting.values()]) done(undefined);
    if (!child) return;
    child.stdin!.end();
    const timer = setTimeout(() => child.kill('SIGKILL'), END_LIMIT);
    timer.unref();
    child.once('exit', () => clearTimeout(timer));
  }

  /** Whether there was room for a message. */
  private send(message: object): boolean {
    const stdin = this.child?.stdin;
    if (!stdin) return false;
    const line = lineOf(message);
    if (stdin.writableLength + Buffer.byteLength(line) > MAX_BUFFERED) {
      if (!this.isFull) this.warn('memfw link does not keep up: until it does, writes and reads are not checked');
      this.isFull = true;
      return false;
    }
    stdin.write(line);
    this.silentSince ??= Date.now();
    return true;
  }

  /** A call got no answer in time. */
  private miss(): void {
    const { child } = this;
    this.missed += 1;
    const silent = Date.now() - (this.silentSince ?? Date.now());
    if (!child || this.missed < HUNG.missed || silent < (this.isGreeted ? HUNG.silent : HUNG.starting)) return;
    this.ended(child, 'it did not answer');
    // A stopped process takes no other signal.
    child.kill('SIGKILL');
  }

  private read(child: ChildProcess, text: string): void {
    if (child !== this.child) return;
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    if (this.rest.length > MAX_REPLY) child.kill();
    for (const line of lines) {
      const reply = replyOf(line);
      if (!reply) {
        child.kill();
        return;
      }
      this.isGreeted = true;
      this.isFull = false;
      this.missed = 0;
      this.silentSince = undefined;
      if (reply.type === 'error' && reply.code === 'version') {
        if (this.failures === 0) {
          this.warn(`memfw does not speak version ${VERSION} of the protocol: install the plugin again`);
        }
        child.kill();
        return;
      }
      if (['verdict', 'recalled', 'told', 'news'].includes(reply.type)) this.failures = 0;
      if (reply.id !== null) this.waiting.get(reply.id)?.(reply);
    }
    if (this.waiting.size > 0) this.silentSince ??= Date.now();
  }

  private ended(child: ChildProcess, why: string): void {
    if (child !== this.child) return;
    this.child = undefined;
    this.rested(why);
    for (const done of [...this.waiting.values()]) done(undefined);
  }

  private rested(why: string): void {
    this.failures += 1;
    const wait = Math.min(BACK_OFF.first * 2 ** (this.failures - 1), BACK_OFF.most);
    this.notBefore = Date.now() + wait;
    // Once, until it answers again.
    if (this.failures > 1) return;
    this.warn(`memfw link is down (${why}): writes and reads are not checked, and the daemon guards`);
  }
}
