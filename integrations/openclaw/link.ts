// The child process `memfw link`: JSON lines on its standard input and output (docs/link.md).
//
// Whatever happens to the child, a call only waits for its own limit, and goes on without a verdict.
import { spawn, type ChildProcess } from 'node:child_process';

/** The version of the protocol. */
const VERSION = 1;
/** Most calls that wait at the same time. */
const MAX_WAITING = 32;
/** Longest reply; memfw's are far shorter. */
const MAX_REPLY = 256 * 1024;
/** Time before the child is started again: doubled with each failure. */
const BACK_OFF = { first: 250, most: 60_000 };
/** What of the environment the child gets: where memfw and OpenClaw keep their files, and no secret. */
const VARIABLES = [
  'HOME', 'PATH', 'USER', 'LANG', 'TZ', 'TMPDIR', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'MEMFW_HOME', 'MEMFW_LOG',
  'OPENCLAW_CONFIG_PATH', 'OPENCLAW_HOME', 'OPENCLAW_PROFILE', 'OPENCLAW_STATE_DIR', 'OPENCLAW_WORKSPACE_DIR',
];

export interface Reason {
  what: string;
  codes: string[];
  text: string;
}

export interface Reply {
  id: number | null;
  type: 'hello' | 'verdict' | 'error';
  decision?: 'allow' | 'refuse' | 'ask';
  judged?: boolean;
  reason?: Reason;
  mode?: string;
  code?: string;
  message?: string;
}

export class Link {
  private readonly program: string;
  private readonly warn: (text: string) => void;
  private child: ChildProcess | undefined;
  private waiting = new Map<number, (reply: Reply | undefined) => void>();
  private rest = '';
  private next = 1;
  private failures = 0;
  private notBefore = 0;

  constructor(program: string, warn: (text: string) => void) {
    this.program = program;
    this.warn = warn;
  }

  /** Starts the child, if it is not there and its back-off is over. */
  start(): boolean {
    if (this.child) return true;
    if (Date.now() < this.notBefore) return false;
    const env: NodeJS.ProcessEnv = {};
    for (const name of VARIABLES) if (process.env[name] !== undefined) env[name] = process.env[name];
    // An argument vector, never a shell.
    let child: ChildProcess;
    try {
      child = spawn(this.program, ['link'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
    } catch (error) {
      this.rested(String(error));
      return false;
    }
    this.child = child;
    this.rest = '';
    child.once('error', (error) => this.ended(child, error.message));
    child.once('exit', (code, signal) => this.ended(child, `it ended with ${signal ?? code}`));
    // An exit says more than a broken pipe.
    child.stdin!.on('error', () => undefined);
    child.stdout!.setEncoding('utf8');
    child.stdout!.on('data', (text: string) => this.read(child, text));
    // The child never keeps the agent alive; it ends when its standard input does.
    child.unref();
    for (const stream of [child.stdin, child.stdout] as unknown as { unref?: () => void }[]) stream.unref?.();
    this.send({ id: 0, type: 'hello', version: VERSION, client: 'openclaw' });
    return true;
  }

  /** Asks whether a call may write; nothing if there is no answer in time. */
  check(call: object, timeoutMs: number): Promise<Reply | undefined> {
    if (this.waiting.size >= MAX_WAITING || !this.start()) return Promise.resolve(undefined);
    const id = this.next++;
    return new Promise((resolve) => {
      const done = (reply: Reply | undefined) => {
        clearTimeout(timer);
        this.waiting.delete(id);
        resolve(reply);
      };
      // A reply may have come while something else kept the agent busy: it is read before the call goes on.
      const timer = setTimeout(() => setImmediate(() => done(undefined)), timeoutMs);
      this.waiting.set(id, done);
      this.send({ id, type: 'check', deadline_ms: timeoutMs, ...call });
    });
  }

  /** Ends the child. */
  stop(): void {
    this.child?.stdin?.end();
  }

  private send(message: object): void {
    this.child?.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  private read(child: ChildProcess, text: string): void {
    if (child !== this.child) return;
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    if (this.rest.length > MAX_REPLY) child.kill();
    for (const line of lines) {
      let reply: Reply;
      try {
        reply = JSON.parse(line) as Reply;
      } catch {
        child.kill();
        return;
      }
      if (reply.type === 'error' && reply.code === 'version') {
        this.warn(`memfw does not speak version ${VERSION} of the protocol: install the plugin again`);
        child.kill();
        return;
      }
      if (reply.type === 'verdict') this.failures = 0;
      if (reply.id !== null) this.waiting.get(reply.id)?.(reply);
    }
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
    this.warn(`memfw link is down (${why}): writes are not checked before they happen, and the daemon guards`);
  }
}
