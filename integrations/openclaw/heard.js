// What came into each session: the answers of tools, as hashes and passages. Nothing leaves memory, and old
// pieces go first.
import { createHash } from 'node:crypto';

/** Limits of memfw's protocol: pieces of one check, and bytes of one passage. */
const MAX_PIECES = 64;
const MAX_PASSAGE = 64 * 1024;
/** Bytes of all passages of one check, and sessions that are remembered (choices). */
const MAX_BYTES = 1 << 20;
const MAX_SESSIONS = 64;
const MAX_NAME = 4096;

/** The text of a tool's result. */
export function textOf(result         )         {
  if (typeof result === 'string') return result;
  const content = (result                      )?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part                    ) => (typeof part?.text === 'string' ? part.text : '')).join('\n');
}

/** A text cut to a number of bytes, at a character. */
export function cut(text        , most        )         {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= most) return text;
  let end = most;
  while (end > 0 && (bytes[end]  & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end).toString('utf8');
}

/** The file, address or command that a tool was given. */
export function subjectOf(params                         )         {
  for (const name of ['url', 'path', 'file_path', 'filePath', 'command', 'query', 'name']) {
    const value = params[name];
    if (typeof value === 'string') return cut(value, MAX_NAME);
  }
  return '';
}

export class Heard {
          sessions = new Map                 ();

  /** Notes what a tool answered. */
  answer(session        , tool        , params                         , result         , error         )       {
    const text = textOf(result) || error || '';
    const details = (result                      )?.details;
    const pieces = this.sessions.get(session) ?? [];
    pieces.push({
      kind: 'tool',
      tool: cut(tool, MAX_NAME),
      subject: subjectOf(params),
      passage: cut(text, MAX_PASSAGE),
      sha256: createHash('sha256').update(text).digest('hex'),
      bytes: Buffer.byteLength(text),
      is_error: error !== undefined || (result                      )?.isError === true,
      network: details?.externalContent?.untrusted === true,
    });
    if (pieces.length > MAX_PIECES - 1) pieces.shift();
    // The session that was active last is the last one.
    this.sessions.delete(session);
    this.sessions.set(session, pieces);
    if (this.sessions.size > MAX_SESSIONS) this.sessions.delete(this.sessions.keys().next().value );
  }

  /** What came into a session, oldest first; the oldest pieces are left out where all would be too much. */
  of(session        )          {
    let bytes = 0;
    const pieces = [...(this.sessions.get(session) ?? [])].reverse();
    return pieces.filter((piece) => (bytes += Buffer.byteLength(piece.passage)) <= MAX_BYTES).reverse();
  }
}
