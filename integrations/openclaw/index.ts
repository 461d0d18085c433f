// memfw inside OpenClaw: before the agent writes to its memory, memfw is asked, and poison is refused with a
// reason; what the agent reads of its memory comes by trust. Without an answer the call goes on, and memfw's daemon
// judges the file after the write.
import { command } from './chat.js';
import { type Fields, flag, name, record, string } from './checked.js';
import { DESCRIPTION, ID, metadata, METADATA, NAME } from './described.js';
import { Heard } from './heard.js';
import { type Complete, Judge } from './judge.js';
import { installed, leadsInto, OWN_FILES } from './installed.js';
import { Link } from './link.js';
import { Notices } from './notices.js';
import { FRAMES, namesOf, READERS, Reads, type Starts } from './reads.js';

/** Tools that write files. */
const WRITERS = ['write', 'edit', 'apply_patch'];
/** How long a call waits for a verdict, in milliseconds. */
const TIMEOUT = 50;
/** How long a read waits: at a start the child may have to be started, which takes longer on a busy machine. */
const READ_TIMEOUT = 2000;
/** Limits of OpenClaw's approval requests. */
const MAX_TITLE = 80;
const MAX_DESCRIPTION = 512;

interface Api {
  pluginConfig?: { program?: string; timeoutMs?: number; reads?: boolean; readTimeoutMs?: number; notices?: boolean; judge?: boolean };
  config?: unknown;
  runtime?: { llm?: { complete?: Complete }; config?: { current?: () => unknown } };
  logger?: { warn?: (text: string) => void };
  registerHook?(name: string, handler: (event: unknown) => Promise<void>, options: object): void;
  registerCommand?(command: object): void;
  registerMemoryPromptSupplement?(lines: () => string[]): void;
  registerAgentToolResultMiddleware?(
    handler: (event: unknown, context: unknown) => Promise<{ result: Fields } | undefined>,
    options: object,
  ): void;
  on(name: string, handler: (event: unknown, context: unknown) => unknown, options?: object): void;
}

/** What all copies of the plugin in a process share. */
interface Shared {
  links: Map<string, Link>;
  judges: Map<string, Judge>;
  heard: Heard;
  starts: Starts;
  /** What only the hooks of a run know, by run; old runs go first. */
  runs: Map<string, { trigger: string | undefined; workspace: string | undefined }>;
}

// OpenClaw loads a plugin several times in one process, each time from a copy of its files, also to list it; the
// hooks of one run may be those of several copies (2026.9.6). Nothing is started before a hook runs.
const place = globalThis as { [key: symbol]: Shared | undefined };
const { links, judges, heard, starts, runs } = (place[Symbol.for('memfw.openclaw.1')] ??= {
  links: new Map(),
  judges: new Map(),
  heard: new Heard(),
  starts: new Map(),
  runs: new Map(),
});
const MAX_RUNS = 64;

/** The files that a call names. */
export function named(tool: string, params: Fields): string[] {
  const texts = (...names: string[]) => names.map((one) => string(params[one])).filter((value) => value !== undefined);
  if (tool !== 'apply_patch') return texts('path', 'file_path', 'filePath');
  // Lines end as OpenClaw's parser of patches reads them; each is looked at once.
  const header = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/s;
  const lines = texts('input', 'patch').flatMap((patch) => patch.split(/\r?\n/));
  const found = lines.map((line) => header.exec(line.trim())?.[1]?.trim() ?? '');
  return [...new Set(found.filter((one) => one !== ''))];
}

/** What a call would change. A patch is one change, whatever number of files it names: memfw finds them in it. */
export function changeOf(tool: string, params: Fields): { path: string; change: object } | undefined {
  const text = (...names: string[]) => names.map((one) => string(params[one])).find((value) => value !== undefined);
  const [path, ...others] = named(tool, params);
  if (tool === 'apply_patch') {
    const patch = text('input', 'patch');
    return patch === undefined ? undefined : { path: others.length === 0 ? (path ?? '') : '', change: { patch } };
  }
  if (path === undefined) return undefined;
  if (tool === 'write') {
    const content = text('content', 'text');
    return content === undefined ? undefined : { path, change: { write: content } };
  }
  const given: unknown[] = Array.isArray(params.edits) ? params.edits : [params];
  const edits = given.map(record).map((edit) => ({
    old: edit?.oldText ?? edit?.old_string ?? edit?.old,
    new: edit?.newText ?? edit?.new_string ?? edit?.new,
  }));
  const isWhole = edits.every((edit) => typeof edit.old === 'string' && typeof edit.new === 'string');
  return isWhole ? { path, change: { edits } } : undefined;
}

export default {
  id: ID,
  name: NAME,
  description: DESCRIPTION,
  [METADATA]: metadata,
  register(api: Api): void {
    const config = api.pluginConfig ?? {};
    const limit = config.timeoutMs ?? TIMEOUT;
    const warn = (text: string) => api.logger?.warn?.(text);
    const own = installed();
    const program = config.program || own.program;
    const link = links.get(program) ?? new Link(program, own.env, warn);
    links.set(program, link);
    const sessionOf = (context: Fields) =>
      name(context.sessionKey) ?? name(context.sessionId) ?? name(context.runId) ?? '';
    // Whatever goes wrong, the agent does what it would do without the plugin: OpenClaw blocks a call whose hook
    // fails, and memfw never blocks for lack of an answer.
    const safely = async <T>(what: string, work: () => T | Promise<T>): Promise<T | undefined> => {
      try {
        return await work();
      } catch (error) {
        warn(`${what}: ${String(error)}`);
        return undefined;
      }
    };

    const reads = config.reads === false ? undefined : new Reads(link, config.readTimeoutMs ?? READ_TIMEOUT, starts);
    if (reads) {
      const options = { name: 'memfw-recall', description: 'Hands memory files to the model by trust' };
      const start = async (event: unknown) => {
        const context = record(record(event)?.context);
        if (context) await reads.start(context);
      };
      api.registerHook?.('agent:bootstrap', (event) => safely('a start was not checked', () => start(event)), options);
      const passed = async (event: unknown, context: unknown) => {
        const { toolName, args, result } = record(event) ?? {};
        const tool = string(toolName) ?? '';
        const given = record(result);
        if (!READERS.includes(tool) || !given) return undefined;
        const of = namesOf(record(context) ?? {});
        const workspace = runs.get(of.run ?? '')?.workspace;
        const changed = await reads.result(tool, record(args) ?? {}, given, { ...of, workspace });
        return changed && { result: changed };
      };
      api.registerAgentToolResultMiddleware?.(
        (event, context) => safely('a read was not checked', () => passed(event, context)),
        { matcher: READERS, runtimes: ['openclaw', 'codex'] },
      );
      api.registerMemoryPromptSupplement?.(() => [FRAMES, '']);
    }

    api.registerCommand?.(command(link));

    // The child is ready when the model has answered.
    api.on('model_call_started', (_event, given) =>
      safely('memfw was not told of a run', () => {
        const context = record(given) ?? {};
        link.start();
        const { workspace, ...of } = namesOf(context);
        if (of.run === undefined) return;
        reads?.entered(of);
        runs.set(of.run, { trigger: name(context.trigger), workspace });
        if (runs.size > MAX_RUNS) runs.delete(runs.keys().next().value!);
      }),
    );

    api.on(
      'before_tool_call',
      (event, context) => {
        // One limit for all that is done about a call: OpenClaw blocks a call whose hook takes too long.
        const until = performance.now() + limit;
        return safely('a call was not checked', () => judged(record(event) ?? {}, record(context) ?? {}, until));
      },
      { matcher: WRITERS, priority: 100 },
    );

    const judged = async (event: Fields, context: Fields, until: number) => {
      const requester = record(context.requester) ?? {};
      const tool = name(event.toolName) ?? '';
      const params = record(event.params) ?? {};
      const of = namesOf(context);
      const run = of.run ?? name(event.runId);
      const known = runs.get(run ?? '');
      const workspace = known?.workspace ?? of.workspace;
      const files = named(tool, params);
      // Without the child, too: who changes memfw's configuration could switch it off.
      if (leadsInto(own.own, files, workspace)) return { block: true, blockReason: OWN_FILES };
      const changed = changeOf(tool, params);
      const left = Math.ceil(until - performance.now());
      if (!changed || left <= 0) return undefined;
      const call = {
        ...of,
        tool,
        ...changed,
        run,
        workspace,
        trigger: known?.trigger,
        channel: name(requester.channel) ?? name(context.channelId),
        sender: name(requester.senderId),
        sender_is_owner: flag(requester.senderIsOwner),
        heard: heard.of(sessionOf(context)),
      };
      const reply = await link.ask('check', call, left);
      if (reply?.type !== 'verdict' || !reply.reason) return undefined;
      if (reply.decision === 'refuse') return { block: true, blockReason: reply.reason.text };
      if (reply.decision !== 'ask') return undefined;
      const why = `${reply.reason.what} (${reply.reason.codes.join(', ')}).`;
      const [first = 'memory', ...others] = files;
      const where = others.length === 0 ? first : `${files.length} files`;
      return {
        requireApproval: {
          title: `Write to ${where}?`.slice(0, MAX_TITLE).toWellFormed(),
          description: why.slice(0, MAX_DESCRIPTION).toWellFormed(),
          severity: 'critical',
          allowedDecisions: ['allow-once', 'deny'],
          // For the audit alone: OpenClaw has carried the answer out.
          onResolution: (decision: unknown) => {
            void safely('memfw was not told of an answer', () => link.tell('resolved', { check: reply.id, decision }));
          },
        },
      };
    };

    api.on('after_tool_call', (event, context) =>
      safely('an answer was not noted', () => heard.answer(sessionOf(record(context) ?? {}), record(event) ?? {})),
    );

    if (config.judge !== false) {
      const judge = judges.get(program) ?? new Judge(program, own.env, warn);
      judges.set(program, judge);
      // Looked up when a question is answered: a copy of the plugin that is only listed has no model.
      const complete: Complete = async (request) => api.runtime?.llm?.complete?.(request);
      const soon = () => safely('memfw was not asked for questions', () => judge.soon(complete));
      api.on('gateway_start', soon);
      // The end of a run (`agent_end`) is not told to a plugin that reads no conversation.
      api.on('model_call_ended', soon);
      api.on('gateway_stop', () => judge.stop());
    }

    if (config.notices !== false) {
      const notices = new Notices(link, () => api.runtime?.config?.current?.() ?? api.config, warn);
      api.on('gateway_start', () => notices.begin());
      api.on('gateway_stop', () => notices.stop());
    }

    // The first run of a gateway does not wait for the child to start.
    api.on('gateway_start', () => safely('memfw was not started', () => link.start()));
    api.on('gateway_stop', () => link.stop());
  },
};
