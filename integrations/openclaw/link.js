// The child process `memfw link`: JSON lines on its standard input and output (docs/link.md).
//
// Whatever happens to the child, a call only waits for its own limit, and goes on without a verdict.
import { spawn,                   } from 'node:child_process';

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

/** A text of memory in the form in which it may reach the model. */

/** A line of the child; nothing if it is none of memfw. */
export function replyOf(line        )                    {
  let value;
  try {
    value = record(JSON.parse(line));
  } catch {
    return undefined;
  }
  const type = string(value?.type);
  if (!value || type === undefined || !(value.id === null || Number.isSafeInteger(value.id))) return undefined;
  const reply        = { id: value.id                 , type };
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

function isRecalled(value         )                    {
  const { handing, text } = record(value) ?? {};
  return handing === 'replace' ? typeof text === 'string' : handing === 'keep' || handing === 'drop';
}

export class Link {
                   program        ;
                   env                   ;
                   warn                        ;
          child                          ;
          waiting = new Map                                            ();
          rest = '';
          next = 1;
          failures = 0;
          notBefore = 0;
          isGreeted = false;
          isFull = false;
          missed = 0;
  /** Since when the child has said nothing to what it was asked. */
          silentSince                    ;

  constructor(program        , env                   , warn                        ) {
    this.program = program;
    this.env = env;
    this.warn = warn;
  }

  /** Starts the child, if it is not there and its back-off is over. */
  start()          {
    if (this.child) return true;
    if (Date.now() < this.notBefore) return false;
    // An argument vector, never a shell.
    let child              ;
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
    child.stdin .on('error', () => undefined);
    child.stdout .setEncoding('utf8');
    child.stdout .on('error', () => undefined);
    child.stdout .on('data', (text        ) => this.read(child, text));
    // The child never keeps the agent alive; it ends when its standard input does.
    child.unref();
    for (const stream of [child.stdin, child.stdout]                                       ) stream.unref?.();
    this.send({ id: 0, type: 'hello', version: VERSION, client: 'openclaw' });
    return true;
  }

  /** Says something that needs no answer. */
  tell(type        , body        )       {
    if (this.child) this.send({ id: this.next++, type, ...body });
  }

  /** Asks memfw; nothing if there is no answer in time. */
  ask(type        , body        , timeoutMs        )                             {
    if (this.waiting.size >= MAX_WAITING || !this.start()) return Promise.resolve(undefined);
    const id = this.next++;
    return new Promise((resolve) => {
      const done = (reply                   ) => {
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
  stop()       {
    const { child } = this;
    this.child = undefined;
    for (const done of [...this.waiting.values()]) done(undefined);
    if (!child) return;
    child.stdin .end();
    const timer = setTimeout(() => child.kill('SIGKILL'), END_LIMIT);
    timer.unref();
    child.once('exit', () => clearTimeout(timer));
  }

  /** Whether there was room for a message. */
          send(message        )          {
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
          miss()       {
    const { child } = this;
    this.missed += 1;
    const silent = Date.now() - (this.silentSince ?? Date.now());
    if (!child || this.missed < HUNG.missed || silent < (this.isGreeted ? HUNG.silent : HUNG.starting)) return;
    this.ended(child, 'it did not answer');
    // A stopped process takes no other signal.
    child.kill('SIGKILL');
  }

          read(child              , text        )       {
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

          ended(child              , why        )       {
    if (child !== this.child) return;
    this.child = undefined;
    this.rested(why);
    for (const done of [...this.waiting.values()]) done(undefined);
  }

          rested(why        )       {
    this.failures += 1;
    const wait = Math.min(BACK_OFF.first * 2 ** (this.failures - 1), BACK_OFF.most);
    this.notBefore = Date.now() + wait;
    // Once, until it answers again.
    if (this.failures > 1) return;
    this.warn(`memfw link is down (${why}): writes and reads are not checked, and the daemon guards`);
  }
}
