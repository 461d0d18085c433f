// memfw's judge by the owner's own model: what waits in memfw's queue (`judge.via = "queue"`) is answered in a run of
// OpenClaw without tools, history or session. memfw makes the prompts, keeps the budget, and checks each answer.
import { spawn } from 'node:child_process';

import { name, record, string } from './checked.js';

/** How long after the end of a run memfw is asked for questions, in milliseconds: it judges a text after the write, and
 * its model reads it before the judge does. */
const AFTER_RUN = [3_000, 15_000, 60_000];
/** How long the program may take, in milliseconds: an answer waits for programs that have the file open. */
const PROGRAM_LIMIT = 30_000;
/** How long the model may take, in milliseconds. */
const MODEL_LIMIT = 60_000;
/** Most questions in one go. */
const MAX_QUESTIONS = 20;
/** How long memfw is not asked after it could not answer, mostly because no judge is configured, in milliseconds. */
const OFF = 60_000;
/** Most bytes that are read from the program. */
const MAX_OUTPUT = 1 << 20;
/** The exit status of `memfw judge` where it cannot be carried out. */
const UNAVAILABLE = 2;

/** `api.runtime.llm.complete` of OpenClaw 2026.9.6. */
export type Complete = (request: object) => Promise<unknown>;

interface Ended {
  status: number | null;
  output: string;
}

export class Judge {
  private readonly program: string;
  private readonly env: NodeJS.ProcessEnv;
  private readonly warn: (text: string) => void;
  private complete: Complete | undefined;
  private timers: NodeJS.Timeout[] = [];
  private isBusy = false;
  private notBefore = 0;

  constructor(program: string, env: NodeJS.ProcessEnv, warn: (text: string) => void) {
    this.program = program;
    this.env = env;
    this.warn = warn;
  }

  /** Asks for questions soon, because a run has ended or a gateway has started. */
  soon(complete: Complete): void {
    this.complete = complete;
    this.stop();
    this.timers = AFTER_RUN.map((delay) => setTimeout(() => void this.work(), delay).unref());
  }

  stop(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers = [];
  }

  /** Answers what waits, one question after another; returns how many answers memfw has taken. */
  async work(): Promise<number> {
    if (this.isBusy || Date.now() < this.notBefore) return 0;
    this.isBusy = true;
    let taken = 0;
    try {
      for (let n = 0; n < MAX_QUESTIONS; n += 1) {
        const answer = await this.one();
        if (answer === undefined) break;
        taken += Number(answer);
      }
    } catch (error) {
      this.warn(`a question of memfw was not answered: ${String(error)}`);
    } finally {
      this.isBusy = false;
    }
    return taken;
  }

  /** Whether the answer to the next question counts; nothing where no question waits. */
  private async one(): Promise<boolean | undefined> {
    const next = await this.run(['judge', 'next', '--json'], '');
    if (next.status === UNAVAILABLE) this.notBefore = Date.now() + OFF;
    const question = next.status === 0 ? record(JSON.parse(next.output)) : undefined;
    const id = name(question?.id);
    const prompt = string(question?.prompt);
    if (id === undefined || prompt === undefined || !this.complete) return undefined;
    const completed = await this.complete({
      messages: [{ role: 'user', content: prompt }],
      purpose: 'memfw-judge',
      temperature: 0,
      execution: { mode: 'isolated-agent-runtime', timeoutMs: MODEL_LIMIT },
    });
    // The id is memfw's own, and an argument of its own behind `--`.
    const answered = await this.run(['judge', 'answer', '--json', '--', id], string(record(completed)?.text) ?? '');
    return answered.status === 0;
  }

  private run(args: string[], input: string): Promise<Ended> {
    return new Promise((resolve, reject) => {
      // An argument vector, never a shell.
      const options = { env: this.env, timeout: PROGRAM_LIMIT, killSignal: 'SIGKILL' as const };
      const child = spawn(this.program, args, { ...options, stdio: ['pipe', 'pipe', 'ignore'] });
      let output = '';
      child.stdout.setEncoding('utf8');
      child.stdout.on('data', (chunk: string) => {
        if (output.length < MAX_OUTPUT) output += chunk;
      });
      child.on('error', reject);
      child.on('close', (status) => resolve({ status, output }));
      // A program that ends before it has read everything has said why.
      child.stdin.on('error', () => undefined);
      child.stdin.end(input.toWellFormed());
    });
  }
}
