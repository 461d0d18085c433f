// memfw inside OpenClaw: before the agent writes to its memory, memfw is asked, and poison is refused with a
// reason. Without an answer the call goes on, and memfw's daemon judges the file after the write.
import fs from 'node:fs';

import { Heard } from './heard.js';
import { Link } from './link.js';

/** Tools that write files. */
const WRITERS = ['write', 'edit', 'apply_patch'];
/** How long a call waits for a verdict, in milliseconds. */
const TIMEOUT = 50;
/** Limits of OpenClaw's approval requests. */
const MAX_TITLE = 80;
const MAX_DESCRIPTION = 512;

interface Params {
  [name: string]: unknown;
}

interface ToolEvent {
  toolName: string;
  params: Params;
  runId?: string;
  result?: unknown;
  error?: string;
}

interface ToolContext {
  agentId?: string;
  sessionKey?: string;
  sessionId?: string;
  runId?: string;
  channelId?: string;
  trigger?: string;
  workspaceDir?: string;
  requester?: { channel?: string; senderId?: string; senderIsOwner?: boolean };
}

interface Api {
  pluginConfig?: { program?: string; timeoutMs?: number };
  logger?: { warn?: (text: string) => void };
  on(name: string, handler: (event: ToolEvent, context: ToolContext) => unknown, options?: object): void;
}

// OpenClaw registers a plugin several times in one process, also to list it: hooks of a registration for discovery
// are the ones that run in a turn without a gateway (2026.9.6). Nothing is started before a hook runs.
const links = new Map<string, Link>();
const heard = new Heard();
/** What only the hooks of a run know, by run; old runs go first. */
const runs = new Map<string, { trigger: string | undefined; workspace: string | undefined }>();
const MAX_RUNS = 64;

/** What a call would change, for each file that it names. */
export function changes(tool: string, params: Params): { path: string; change: object }[] {
  const text = (...names: string[]) => names.map((name) => params[name]).find((value) => typeof value === 'string');
  const path = text('path', 'file_path', 'filePath') as string | undefined;
  if (tool === 'apply_patch') {
    const patch = text('input', 'patch') as string | undefined;
    if (patch === undefined) return [];
    const named = [...patch.matchAll(/^\*\*\* (?:Add|Update) File: (.+)$/gm)].map((found) => found[1]!.trim());
    return [...new Set(named)].map((file) => ({ path: file, change: { patch } }));
  }
  if (path === undefined) return [];
  if (tool === 'write') {
    const content = text('content', 'text');
    return content === undefined ? [] : [{ path, change: { write: content } }];
  }
  const given = Array.isArray(params.edits) ? (params.edits as (Params | null)[]) : [params];
  const edits = given.map((edit) => ({
    old: edit?.oldText ?? edit?.old_string ?? edit?.old,
    new: edit?.newText ?? edit?.new_string ?? edit?.new,
  }));
  const isWhole = edits.every((edit) => typeof edit.old === 'string' && typeof edit.new === 'string');
  return isWhole ? [{ path, change: { edits } }] : [];
}

/** The program that installed the plugin. */
function installer(): string {
  try {
    const file = fs.readFileSync(new URL('./program.json', import.meta.url), 'utf8');
    const { program } = JSON.parse(file) as { program?: unknown };
    if (typeof program === 'string' && program !== '') return program;
  } catch {
    // A copy that was not installed by memfw.
  }
  return 'memfw';
}

export default {
  id: 'memfw',
  name: 'memfw',
  description: 'Asks memfw before the agent writes to its memory',
  register(api: Api): void {
    const config = api.pluginConfig ?? {};
    const limit = config.timeoutMs ?? TIMEOUT;
    const warn = (text: string) => api.logger?.warn?.(text);
    const program = config.program || installer();
    const link = links.get(program) ?? new Link(program, warn);
    links.set(program, link);
    const sessionOf = (context: ToolContext) => context.sessionKey ?? context.sessionId ?? context.runId ?? '';

    // The child is ready when the model has answered.
    api.on('model_call_started', (_event, context) => {
      link.start();
      if (context.runId === undefined) return;
      runs.set(context.runId, { trigger: context.trigger, workspace: context.workspaceDir });
      if (runs.size > MAX_RUNS) runs.delete(runs.keys().next().value!);
    });

    api.on(
      'before_tool_call',
      async (event, context) => {
        try {
          return await judged(event, context);
        } catch (error) {
          // OpenClaw blocks a call whose hook fails, and memfw never blocks for lack of an answer.
          warn(`a call was not checked: ${String(error)}`);
          return undefined;
        }
      },
      { matcher: WRITERS, priority: 100 },
    );

    const judged = async (event: ToolEvent, context: ToolContext) => {
      const { requester } = context;
      const run = context.runId ?? event.runId;
      for (const { path, change } of changes(event.toolName, event.params)) {
        const call = {
          tool: event.toolName,
          path,
          change,
          agent: context.agentId,
          run,
          workspace: runs.get(run ?? '')?.workspace,
          trigger: runs.get(run ?? '')?.trigger,
          session: context.sessionKey,
          session_id: context.sessionId,
          channel: requester?.channel ?? context.channelId,
          sender: requester?.senderId,
          sender_is_owner: requester?.senderIsOwner,
          heard: heard.of(sessionOf(context)),
        };
        const reply = await link.check(call, limit);
        if (reply?.type !== 'verdict' || !reply.reason) continue;
        if (reply.decision === 'refuse') return { block: true, blockReason: reply.reason.text };
        if (reply.decision === 'ask') {
          const why = `${reply.reason.what} (${reply.reason.codes.join(', ')}).`;
          return {
            requireApproval: {
              title: `Write to ${path}?`.slice(0, MAX_TITLE),
              description: why.slice(0, MAX_DESCRIPTION),
              severity: 'critical',
              allowedDecisions: ['allow-once', 'deny'],
            },
          };
        }
      }
      return undefined;
    };

    api.on('after_tool_call', (event, context) => {
      heard.answer(sessionOf(context), event.toolName, event.params, event.result, event.error);
    });

    api.on('gateway_stop', () => link.stop());
  },
};
