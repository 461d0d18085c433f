// What came into each session: the answers of tools, as hashes and passages. Nothing leaves memory, and old
// pieces go first.
import { createHash } from 'node:crypto';

import { cut, type Fields, name, record, string } from './checked.js';

/** Limits of memfw's protocol: pieces of one check, and bytes of one passage. */
const MAX_PIECES = 64;
const MAX_PASSAGE = 64 * 1024;
/** Bytes of all passages of one check, and sessions that are remembered (choices). */
const MAX_BYTES = 1 << 20;
const MAX_SESSIONS = 64;

export interface Piece {
  kind: 'message' | 'tool';
  tool: string;
  subject: string;
  passage: string;
  sha256: string;
  bytes: number;
  is_error: boolean;
  network: boolean;
}

/** The text of a tool's result. */
export function textOf(result: unknown): string {
  if (typeof result === 'string') return result;
  const content = record(result)?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: unknown) => string(record(part)?.text) ?? '').join('\n');
}

/** The file, address or command that a tool was given. */
export function subjectOf(params: Fields): string {
  const names = ['url', 'path', 'file_path', 'filePath', 'command', 'query', 'name'];
  return names.map((one) => name(params[one])).find((value) => value !== undefined) ?? '';
}

export class Heard {
  private sessions = new Map<string, Piece[]>();

  /** Notes what a tool answered. */
  answer(session: string, event: Fields): void {
    const { result } = event;
    const error = string(event.error);
    // As the file gets it, with U+FFFD for what is no character.
    const text = (textOf(result) || error || '').toWellFormed();
    const details = record(record(result)?.details);
    const pieces = this.sessions.get(session) ?? [];
    pieces.push({
      kind: 'tool',
      tool: name(event.toolName) ?? '',
      subject: subjectOf(record(event.params) ?? {}),
      passage: cut(text, MAX_PASSAGE),
      sha256: createHash('sha256').update(text).digest('hex'),
      bytes: Buffer.byteLength(text),
      is_error: error !== undefined || record(result)?.isError === true,
      network: record(details?.externalContent)?.untrusted === true,
    });
    if (pieces.length > MAX_PIECES - 1) pieces.shift();
    // The session that was active last is the last one.
    this.sessions.delete(session);
    this.sessions.set(session, pieces);
    if (this.sessions.size > MAX_SESSIONS) this.sessions.delete(this.sessions.keys().next().value!);
  }

  /** What came into a session, oldest first; the oldest pieces are left out where all would be too much. */
  of(session: string): Piece[] {
    let bytes = 0;
    const pieces = [...(this.sessions.get(session) ?? [])].reverse();
    return pieces.filter((piece) => (bytes += Buffer.byteLength(piece.passage)) <= MAX_BYTES).reverse();
  }
}
