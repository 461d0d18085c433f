// Notices to the owner with configurations that OpenClaw may have, and with channels and children that fail.
//
//   node notices.mjs
import assert from 'node:assert/strict';
import path from 'node:path';

const source = path.join(path.dirname(new URL(import.meta.url).pathname), '../../integrations/openclaw');
const { Notices, ownerChat } = await import(path.join(source, 'notices.js'));

// Only an address that is the owner's own chat.
const named = (...owners) => ownerChat({ commands: { ownerAllowFrom: owners } });
assert.deepEqual(named('telegram:42'), { channel: 'telegram', to: '42' });
assert.deepEqual(named('*', 42, 'discord:7', ' telegram:42 '), { channel: 'telegram', to: '42' });
for (const owner of [
  '*', 'telegram:*', 'telegram:', 'telegram', '42', 42, null, 'telegram:-10042', 'telegram:@ann', 'telegram:42:7',
  'telegram:042', 'discord:7', 'slack:U7', 'constructor:42', 'toString:42', '__proto__:42',
]) {
  assert.equal(named(owner), undefined, String(owner));
}
for (const config of [undefined, null, 5, {}, { commands: 5 }, { commands: { ownerAllowFrom: 'telegram:42' } }]) {
  assert.equal(ownerChat(config), undefined, JSON.stringify(config));
}

const OWNED = { commands: { ownerAllowFrom: ['telegram:42'] } };
const NEWS = { id: 1, type: 'news', text: 'memfw: 1 entry out of MEMORY.md, unknown: a1b2c3', offers: ['show a1b2c3'] };

/** Notices with a child that gives these replies, one after another, and a channel. */
function notices(replies, channel, config = OWNED) {
  const asked = [];
  const sent = [];
  const warnings = [];
  const link = { ask: async (...request) => { asked.push(request); return replies.shift(); } };
  const send = async (...message) => { sent.push(message); return channel(sent.length); };
  const made = new Notices(link, () => config, (text) => warnings.push(text), send);
  return { made, asked, sent, warnings };
}

// What is due is sent once, to the owner.
const one = notices([NEWS], () => 'sent');
await one.made.work();
await one.made.work();
assert.deepEqual(one.asked.map(([type]) => type), ['news', 'news']);
assert.deepEqual(one.sent.length, 1);
const [config, chat, payload] = one.sent[0];
assert.deepEqual([config, chat], [OWNED, { channel: 'telegram', to: '42' }]);
assert.equal(payload.text, NEWS.text);
assert.deepEqual(payload.presentation.blocks[0].buttons.map(({ value }) => value), ['/memfw show a1b2c3']);

// Without an address memfw is not asked, so it keeps what is due.
const nobody = notices([NEWS], () => 'sent', {});
await nobody.made.work();
assert.deepEqual([nobody.asked, nobody.sent], [[], []]);

// A channel that starts late gets it later, one that never starts is given up, and what a channel has taken is its own.
const late = notices([NEWS], (n) => { if (n < 3) throw new Error('not started'); return 'sent'; });
for (let n = 0; n < 6; n += 1) await late.made.work();
assert.deepEqual([late.sent.length, late.warnings.length], [3, 2]);
const never = notices([NEWS], () => { throw new Error('not started'); });
for (let n = 0; n < 9; n += 1) await never.made.work();
assert.equal(never.sent.length, 5);
const failed = notices([NEWS], () => 'failed');
for (let n = 0; n < 3; n += 1) await failed.made.work();
assert.deepEqual([failed.sent.length, failed.warnings.length], [1, 1]);

// Nothing to tell, or nothing that memfw says.
for (const reply of [
  undefined, { id: 1, type: 'news' }, { id: 1, type: 'news', text: '' }, { id: 1, type: 'told', text: 'x' },
  { id: 1, type: 'error', code: 'bad-request' },
]) {
  const quiet = notices([reply], () => 'sent');
  await quiet.made.work();
  assert.deepEqual([quiet.sent, quiet.warnings], [[], []], JSON.stringify(reply));
}

// The end of the gateway is the end of the questions.
const ended = notices([], () => 'sent');
ended.made.begin();
ended.made.stop();
console.log('the owner alone is told, once');
