// The child process `memfw link`: JSON lines on its standard input and output (docs/link.md).
//
// Whatever happens to the child, a call only waits for its own limit, and goes on without a verdict.
import { spawn,                   } from 'node:child_process';

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

export class Link {
                   program        ;
                   warn                        ;
          child                          ;
          waiting = new Map                                            ();
          rest = '';
          next = 1;
          failures = 0;
          notBefore = 0;

  constructor(program        , warn                        ) {
    this.program = program;
    this.warn = warn;
  }

  /** Starts the child, if it is not there and its back-off is over. */
  start()          {
    if (this.child) return true;
    if (Date.now() < this.notBefore) return false;
    const env                    = {};
    for (const name of VARIABLES) if (process.env[name] !== undefined) env[name] = process.env[name];
    // An argument vector, never a shell.
    let child              ;
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
    child.stdin .on('error', () => undefined);
    child.stdout .setEncoding('utf8');
    child.stdout .on('data', (text        ) => this.read(child, text));
    // The child never keeps the agent alive; it ends when its standard input does.
    child.unref();
    for (const stream of [child.stdin, child.stdout]                                       ) stream.unref?.();
    this.send({ id: 0, type: 'hello', version: VERSION, client: 'openclaw' });
    return true;
  }

  /** Asks whether a call may write; nothing if there is no answer in time. */
  check(call        , timeoutMs        )                             {
    if (this.waiting.size >= MAX_WAITING || !this.start()) return Promise.resolve(undefined);
    const id = this.next++;
    return new Promise((resolve) => {
      const done = (reply                   ) => {
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
  stop()       {
    this.child?.stdin?.end();
  }

          send(message        )       {
    this.child?.stdin?.write(`${JSON.stringify(message)}\n`);
  }

          read(child              , text        )       {
    if (child !== this.child) return;
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    if (this.rest.length > MAX_REPLY) child.kill();
    for (const line of lines) {
      let reply       ;
      try {
        reply = JSON.parse(line)         ;
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
    this.warn(`memfw link is down (${why}): writes are not checked before they happen, and the daemon guards`);
  }
}
