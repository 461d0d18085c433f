// What OpenClaw and the child give, in the forms that the rest relies on. An exception in a handler of the child's
// output would end OpenClaw.

export interface Fields {
  [name: string]: unknown;
}

/** Longest name, id or address that memfw reads, in bytes. */
const MAX_NAME = 4096;

/** An object; nothing where it is something else. */
export function record(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** A text; nothing where it is something else. */
export function string(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Yes or no; nothing where it is something else. */
export function flag(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

/** A text cut to a number of bytes, at a character. */
export function cut(text: string, most: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= most) return text;
  let end = most;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end).toString('utf8');
}

/** A name that is not too long for memfw. */
export function name(value: unknown): string | undefined {
  return typeof value === 'string' ? cut(value, MAX_NAME) : undefined;
}

/** A message as a line. A lone surrogate is no character, and memfw would not read it: a file gets U+FFFD there. */
export function lineOf(message: object): string {
  const whole = (_name: string, value: unknown) => (typeof value === 'string' ? value.toWellFormed() : value);
  return `${JSON.stringify(message, whole)}\n`;
}
