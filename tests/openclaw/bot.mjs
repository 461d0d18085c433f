// A bot of Telegram as OpenClaw's channel sees it: the Bot API on the loopback interface, what people write and press,
// and what the bot has sent.
import http from 'node:http';

import { until } from './gateway.mjs';

export const TOKEN = '123456:loopback';
const ME = { id: 123456, is_bot: true, first_name: 'Claw', username: 'claw_test_bot' };

export class Bot {
  /** All calls of methods that send or change something, oldest first. */
  calls = [];
  updates = [];
  next = 1;

  async listen() {
    this.server = http.createServer((request, response) => void this.answer(request, response));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.root = `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server?.closeAllConnections();
    this.server?.close();
  }

  async answer(request, response) {
    const url = new URL(request.url, this.root);
    let raw = '';
    for await (const chunk of request) raw += chunk;
    let body = Object.fromEntries(url.searchParams);
    try {
      body = { ...body, ...JSON.parse(raw) };
    } catch {
      // Not every call has a body.
    }
    const method = url.pathname.split('/').at(-1);
    const result = await this.result(method, body);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ ok: true, result }));
  }

  async result(method, body) {
    switch (method) {
      case 'getMe':
        return ME;
      case 'getUpdates': {
        const offset = Number(body.offset ?? 0);
        const due = () => this.updates.filter(({ update_id }) => update_id >= offset);
        const end = Date.now() + 1000;
        while (due().length === 0 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50));
        return due();
      }
      case 'getChat':
        return { id: Number(body.chat_id), type: 'private', first_name: 'Ann' };
      case 'getMyCommands':
        return [];
      case 'getWebhookInfo':
        return { url: '', has_custom_certificate: false, pending_update_count: 0 };
      default: {
        // OpenClaw marks what looks like a file.
        if (typeof body.text === 'string') body.text = body.text.replace(/<\/?[a-z]+>/g, '');
        this.calls.push({ method, ...body });
        if (!/^(send|edit)Message/.test(method)) return true;
        const chat = { id: Number(body.chat_id), type: 'private' };
        return { message_id: body.message_id ?? this.next++, date: now(), chat, from: ME, text: body.text ?? '' };
      }
    }
  }

  push(update) {
    this.updates.push({ update_id: this.next++, ...update });
  }

  /** A person writes in their own chat with the bot. */
  writes(person, text) {
    const entities = text.startsWith('/') ? [{ type: 'bot_command', offset: 0, length: text.split(' ')[0].length }] : [];
    const message = { message_id: this.next++, date: now(), chat: { ...person, type: 'private' }, from: person, text, entities };
    this.push({ message });
  }

  /** A person presses a button below a message that the bot has sent. */
  presses(person, { call, data }) {
    const chat = { id: Number(call.chat_id), type: 'private' };
    const message = { message_id: this.next++, date: now(), chat, from: ME, text: call.text };
    this.push({ callback_query: { id: String(this.next++), from: person, chat_instance: '1', message, data } });
  }

  /** Messages to a person since a number of calls. */
  sent(person, since = 0) {
    return this.calls.slice(since).filter(({ method, chat_id }) => method === 'sendMessage' && Number(chat_id) === person.id);
  }

  /** The next message to a person for which something is true. */
  async says(person, since, isIt) {
    return until(`message to ${person.id}`, () => this.sent(person, since).find(({ text }) => isIt(text)), 60_000);
  }
}

/** The buttons below a message: label and what a press sends. */
export function buttonsOf({ reply_markup }) {
  const markup = typeof reply_markup === 'string' ? JSON.parse(reply_markup) : reply_markup;
  return (markup?.inline_keyboard ?? []).flat().map(({ text, callback_data }) => ({ label: text, data: callback_data }));
}

const now = () => Math.floor(Date.now() / 1000);
