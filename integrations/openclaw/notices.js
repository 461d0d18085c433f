// What the owner is told without having asked: that something was taken out of memory, with its id. memfw says what
// is due, at most once an interval and source and without a word of memory; the plugin only sends it, past the model,
// to the owner's own chat.
import { MAX_ANSWER, withButtons } from './chat.js';
import { cut, record, string } from './checked.js';

/** How often memfw is asked, and how long it may take, in milliseconds. */
const EVERY = 30_000;
const TIMEOUT = 15_000;
/** How often a notice is tried: a channel may still start. */
const ATTEMPTS = 5;
/**
 * The channels on which the id of a person is the address of nobody else and of no group. Elsewhere nothing in OpenClaw
 * 2026.9.6 tells a plugin whether an address is a direct chat, so nothing is sent.
 */
const DIRECT                                = { telegram: /^[1-9][0-9]{0,15}$/ };

/** The owner's own chat: the first owner that OpenClaw's configuration names on such a channel. */
export function ownerChat(config         )                                              {
  const owners = record(record(config)?.commands)?.ownerAllowFrom;
  for (const owner of Array.isArray(owners) ? owners : []) {
    const [channel, to, ...more] = (string(owner) ?? '').trim().split(':');
    if (channel === undefined || to === undefined || more.length > 0) continue;
    if (Object.hasOwn(DIRECT, channel) && DIRECT[channel] .test(to)) return { channel, to };
  }
  return undefined;
}

/** Sends through the channel, with buttons where it has them. */
async function send(config         , chat                                 , payload        )                  {
  // Looked up when there is something to send: the interface exists only inside of OpenClaw.
  const { sendDurableMessageBatch } = await import('openclaw/plugin-sdk/channel-outbound');
  const result = await sendDurableMessageBatch({ cfg: config, ...chat, payloads: [payload] });
  return string(record(result)?.status) ?? '';
}

export class Notices {
                   link      ;
                   config               ;
                   warn                        ;
                   send             ;
          timer                            ;
          isBusy = false;
  /** What could not be handed to the channel yet. */
          kept                                                   ;

  constructor(link      , config               , warn                        , through = send) {
    this.link = link;
    this.config = config;
    this.warn = warn;
    this.send = through;
  }

  /** Begins to ask memfw; what happened before is no news. */
  begin()       {
    this.stop();
    this.timer = setInterval(() => void this.work(), EVERY).unref();
    void this.work();
  }

  stop()       {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** Tells the owner what is due. */
  async work()                {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      const config = this.config();
      const chat = ownerChat(config);
      // Without an address nothing is asked, so that the next one gets what is due.
      if (!chat) return;
      if (!this.kept) {
        const reply = await this.link.ask('news', {}, TIMEOUT);
        if (reply?.type !== 'news' || !reply.text) return;
        const text = cut(reply.text, MAX_ANSWER);
        this.kept = { payload: withButtons(text, reply.offers ?? [], chat.channel), attempts: 0 };
      }
      const { kept } = this;
      kept.attempts += 1;
      // An exception leaves it for the next time, unless it has had its attempts.
      if (kept.attempts >= ATTEMPTS) this.kept = undefined;
      const status = await this.send(config, chat, kept.payload);
      // What the channel has taken is its own to repeat.
      this.kept = undefined;
      if (status === 'failed') this.warn('a notice of memfw was not sent: the channel has not taken it');
    } catch (error) {
      this.warn(`a notice of memfw was not sent: ${String(error)}`);
    } finally {
      this.isBusy = false;
    }
  }
}
