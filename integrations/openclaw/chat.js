// `/memfw` in a chat: what the owner asks memfw, past the model. memfw answers without a word of memory, because
// OpenClaw keeps the answer in the transcript, which tools of the model read.
import { cut, name, record, string } from './checked.js';

/** How long a person waits, in milliseconds: a decision waits for programs that have the file open. */
const TIMEOUT = 15_000;
/** Longest answer, in characters. memfw's own are shorter. */
export const MAX_ANSWER = 4000;

/** What may become a button: an order about one item. Another word of the child is none. */
const OFFER = /^(show|why|approve|reject|undo) ([0-9a-z]{4,16})$/;
const MAX_BUTTONS = 5;
/** How a button is drawn where a channel has styles. */
const STYLES                             = { approve: 'success', reject: 'danger' };

const NOT_OWNER = 'memfw: only the owner may use this command.';
const NO_ANSWER =
  'memfw has not answered. A decision may be carried out yet: ask `/memfw list` in a moment, or run `memfw list` in a terminal.';
const NOT_READ = 'memfw does not know these words: `/memfw help`';

/** The definition of the command, as OpenClaw wants it. */
export function command(link      ) {
  return {
    name: 'memfw',
    description: 'What memfw took out of memory: status, list, show, why, approve, reject, undo (owner only)',
    acceptsArgs: true,
    requireAuth: true,
    // With a scope OpenClaw admits the owner alone, and says who is the owner (2026.9.6).
    requiredScopes: ['operator.admin'],
    handler: (context         ) => answered(link, context),
  };
}

/** What a chat shows; a channel without buttons shows the text alone. */

/**
 * An answer with a button for each order that memfw offers, where a press is the command of the person who presses:
 * OpenClaw checks that person like one who types, and so does `answered`. In OpenClaw 2026.9.6 that is Telegram, with a
 * button whose value is the command. What it calls a command button gives the words of a plugin's command to the model.
 */
export function withButtons(text        , offers          , channel                    )        {
  if (channel !== 'telegram') return { text };
  const buttons = offers.slice(0, MAX_BUTTONS).flatMap((words) => {
    const [, verb, id] = OFFER.exec(words) ?? [];
    if (verb === undefined || id === undefined) return [];
    const label = `${verb.charAt(0).toUpperCase()}${verb.slice(1)} ${id}`;
    const style = STYLES[verb];
    return [{ label, value: `/memfw ${verb} ${id}`, ...(style && { style }) }];
  });
  return buttons.length === 0 ? { text } : { text, presentation: { blocks: [{ type: 'buttons', buttons }] } };
}

/** The answer to a person; OpenClaw shows it and asks no model. */
export async function answered(link      , given         )                 {
  const context = record(given) ?? {};
  const { senderIsOwner, assertOwnerCurrent } = context;
  // Taken before anything is awaited, and asked again after it: the owner may have been replaced meanwhile.
  const isOwner = ()          => {
    if (senderIsOwner !== true || typeof assertOwnerCurrent !== 'function') return false;
    try {
      assertOwnerCurrent();
      return true;
    } catch {
      return false;
    }
  };
  if (!isOwner()) return { text: NOT_OWNER };
  const asked = {
    words: string(context.args) ?? '',
    sender_is_owner: true,
    channel: name(context.channel),
  };
  const reply = await link.ask('chat', asked, TIMEOUT);
  if (!isOwner()) return { text: NOT_OWNER };
  if (reply?.type === 'told') return withButtons(cut(reply.text ?? '', MAX_ANSWER), reply.offers ?? [], asked.channel);
  if (reply?.type !== 'error' || reply.code === 'deadline' || reply.code === 'unavailable') return { text: NO_ANSWER };
  return { text: reply.code === 'not-owner' ? NOT_OWNER : NOT_READ };
}
