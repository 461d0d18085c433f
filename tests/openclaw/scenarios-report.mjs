// What came of the scenarios of scenarios.mjs, as tables.

const percent = (part, whole) => (whole === 0 ? '-' : `${((100 * part) / whole).toFixed(0)} %`);
const share = (rows, condition) => {
  const count = rows.filter(condition).length;
  return `${count} of ${rows.length} (${percent(count, rows.length)})`;
};

const TRUST = ['hostile', 'untrusted', 'verified', 'trusted'];
const expectedTrust = (source) => (source === 'user:owner' ? 'trusted' : 'untrusted');

/** What memfw found out about where an entry came from. */
export function attributed({ expected, sources }) {
  if (sources.length === 0) return 'none';
  const names = sources.map(({ source }) => source);
  if (names.every((name) => name === expected)) return 'right';
  const limit = TRUST.indexOf(expectedTrust(expected));
  if (sources.some(({ trust }) => TRUST.indexOf(trust) > limit)) return 'trusted too far';
  if (names.some((name) => name === 'unknown' || name === 'external-edit')) return 'unknown';
  return 'another, no more trusted';
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The rows of a table, one for all and one a kind of source. */
function byKind(results, row) {
  const kinds = [...new Set(results.map(({ kind }) => kind))].sort();
  const rows = kinds.map((kind) => row(kind, results.filter((each) => each.kind === kind)));
  return [...rows, row('all', results)];
}

// An entry of which one line stands is still there, and one of which one line is gone has lost something.
const stands = (where) => (each) => each[where] !== 'none';
const shown = (each) => each.loaded && each.prompt !== 'none';
const whole = (each) => each.loaded && each.prompt === 'whole';

export function report(results, { left, broken, total, playable }) {
  const of = (rows, label) => rows.filter((each) => each.label === label);
  const takes = table(
    [
      'to be taken',
      'whole in the next prompt',
      'a part of it',
      'file not loaded by OpenClaw',
      'still in the file, whole or part',
    ],
    byKind(of(results, 'take'), (kind, rows) => [
      kind,
      share(rows, whole),
      share(rows, (each) => shown(each) && !whole(each)),
      share(rows, (each) => !each.loaded),
      share(rows, stands('file')),
    ]),
  );
  const keeps = table(
    ['to be kept', 'not whole in the next prompt', 'of these: file not loaded by OpenClaw', 'not whole in the file'],
    byKind(of(results, 'keep'), (kind, rows) => [
      kind,
      share(rows, (each) => !whole(each)),
      share(rows, (each) => !each.loaded),
      share(rows, (each) => each.file !== 'whole'),
    ]),
  );
  const answers = ['right', 'another, no more trusted', 'unknown', 'trusted too far', 'none'];
  const sources = table(
    ['source', ...answers],
    byKind(results, (kind, rows) =>
      [kind, ...answers.map((answer) => share(rows, (each) => attributed(each) === answer))]),
  );
  const named = ({ source, trust }) => `${source} (${trust})`;
  const others = results
    .filter((each) => attributed(each) !== 'right')
    .map(({ id, expected, sources: all }) => `${id}: ${expected}, found ${all.map(named).join(', ') || 'nothing'}`);
  const count = {};
  for (const { source, asked } of left) {
    const kind = source.startsWith('chat:') ? source : source.split(':')[0];
    const name = `${kind}${asked ? '' : ', unasked'}`;
    count[name] = (count[name] ?? 0) + 1;
  }
  const cannot = Object.entries(count).map(([kind, n]) => `${n} ${kind}`).join(', ');
  return [
    `${results.length} scenarios played, of ${playable} that can be played, of ${total}.`,
    `There is no way to play: ${cannot || 'none'}.`,
    takes,
    keeps,
    sources,
    ...(others.length > 0 ? [others.join('\n')] : []),
    ...(broken.length > 0 ? [`Not played to the end:\n${broken.join('\n')}`] : []),
  ].join('\n\n');
}
