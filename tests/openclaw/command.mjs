// The handler of `/memfw` with people that OpenClaw may send, and with answers that memfw gives or does not give.
//
//   node command.mjs
import assert from 'node:assert/strict';
import path from 'node:path';

const source = path.join(path.dirname(new URL(import.meta.url).pathname), '../../integrations/openclaw');
const { answered, command } = await import(path.join(source, 'chat.js'));

const NOT_OWNER = 'memfw: only the owner may use this command.';
const SECRET = 'a1b2c3: approved, back in MEMORY.md';

/** A child that gives this reply, and what it was asked. */
function link(reply, meanwhile = () => undefined) {
  const asked = [];
  return {
    asked,
    ask: async (...request) => {
      asked.push(request);
      await Promise.resolve();
      meanwhile();
      return reply;
    },
  };
}
const told = { id: 1, type: 'told', text: SECRET };

/** The owner, who may be replaced. */
function owner(more = {}) {
  const person = { checks: 0, isCurrent: true };
  person.context = {
    channel: 'telegram', args: 'approve a1b2c3', senderIsOwner: true,
    assertOwnerCurrent: () => {
      person.checks += 1;
      if (!person.isCurrent) throw new Error('replaced');
    },
    ...more,
  };
  return person;
}

// OpenClaw says who is the owner only to a command with a scope.
const definition = command(link(told));
assert.deepEqual(definition.requiredScopes, ['operator.admin']);
assert.equal(definition.requireAuth, true);

// The owner is answered, and was checked before and after.
const asks = link(told);
const person = owner();
assert.deepEqual(await command(asks).handler(person.context), { text: SECRET });
assert.equal(person.checks, 2);
const [type, body, limit] = asks.asked[0];
assert.deepEqual([type, body], ['chat', { words: 'approve a1b2c3', sender_is_owner: true, channel: 'telegram' }]);
assert.ok(limit <= 30_000);

// Nobody else reaches memfw.
for (const more of [
  { senderIsOwner: false }, { senderIsOwner: undefined }, { senderIsOwner: 'true' }, { senderIsOwner: 1 },
  { assertOwnerCurrent: undefined }, { assertOwnerCurrent: true },
  { assertOwnerCurrent: () => { throw new Error('replaced'); } },
]) {
  const asks = link(told);
  assert.deepEqual(await answered(asks, owner(more).context), { text: NOT_OWNER }, JSON.stringify(more));
  assert.deepEqual(asks.asked, []);
}
for (const context of [undefined, null, 5, 'owner', []]) {
  assert.deepEqual(await answered(link(told), context), { text: NOT_OWNER });
}

// Who is replaced while memfw works is told nothing.
const replaced = owner();
const late = link(told, () => { replaced.isCurrent = false; });
assert.deepEqual(await answered(late, replaced.context), { text: NOT_OWNER });
assert.equal(late.asked.length, 1);

// Whatever memfw answers, a person gets a few words.
for (const [reply, expected] of [
  [undefined, /has not answered/],
  [{ id: 1, type: 'error', code: 'deadline' }, /has not answered/],
  [{ id: 1, type: 'error', code: 'unavailable' }, /has not answered/],
  [{ id: 1, type: 'error', code: 'not-owner' }, /only the owner/],
  [{ id: 1, type: 'error', code: 'too-large' }, /does not know these words/],
  [{ id: 1, type: 'error', code: 'bad-request' }, /does not know these words/],
  [{ id: 1, type: 'verdict', decision: 'allow' }, /has not answered/],
  [{ id: 1, type: 'told', text: 'x'.repeat(1 << 20) }, /^x{4000}$/],
]) {
  const { text } = await answered(link(reply), owner().context);
  assert.match(text, expected, JSON.stringify(reply)?.slice(0, 100));
}

// A button sends a command again, and only one that is about an item: whatever else the child says is no button.
const offers = ['show a1b2c3', 'approve a1b2c3', 'reject a1b2c3'];
const { text, presentation } = await answered(link({ ...told, offers }), owner().context);
assert.equal(text, SECRET);
assert.deepEqual(presentation.blocks.map(({ type }) => type), ['buttons']);
assert.deepEqual(presentation.blocks[0].buttons, [
  { label: 'Show a1b2c3', value: '/memfw show a1b2c3' },
  { label: 'Approve a1b2c3', value: '/memfw approve a1b2c3', style: 'success' },
  { label: 'Reject a1b2c3', value: '/memfw reject a1b2c3', style: 'danger' },
]);
for (const words of ['', 'approve', 'approve a1b2c3\n/exec x', 'approve ../a', 'exec a1b2c3', 'show a1b2c3 b2c3d4']) {
  assert.deepEqual(await answered(link({ ...told, offers: [words] }), owner().context), { text: SECRET }, words);
}
// Where a press would be no command of the person, there is no button.
for (const channel of ['discord', 'webchat', 'slack', '', undefined, 5]) {
  assert.deepEqual(await answered(link({ ...told, offers }), owner({ channel }).context), { text: SECRET }, channel);
}
const many = Array.from({ length: 99 }, (_, n) => `show a1b2${String(n).padStart(2, '0')}`);
const { presentation: few } = await answered(link({ ...told, offers: many }), owner().context);
assert.equal(few.blocks[0].buttons.length, 5);

for (const args of [undefined, null, 5, {}]) {
  const asks = link(told);
  await answered(asks, owner({ args }).context);
  assert.equal(asks.asked[0][1].words, '');
}
console.log('/memfw answers the owner alone');
