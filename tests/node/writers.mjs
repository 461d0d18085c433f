// Adds blocks to files as OpenClaw and its agent's tools do: with node's own functions, and with OpenClaw's
// safe writer.
//
// One request a line on standard input: {"way", "file", "text", "gap"}, the gap in milliseconds between a
// read and the write that follows from it. Answers "ok" and how often the writer was told to come back,
// or "error" and why.
import fs from 'node:fs/promises';
import path from 'node:path';
import readline from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from '@openclaw/fs-safe';

const CLOSER = '<!-- /memfw -->';
const roots = new Map();

let again = 0;

// The safe writer looks at a file with O_NONBLOCK before it writes anything, which a lease answers with
// EAGAIN. OpenClaw asks for memory up to three times then, with 25 to 50 ms in between; so does this.
async function patiently(what) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await what();
    } catch (error) {
      if (error.code !== 'EAGAIN' || attempt === 3) throw error;
      again += 1;
      await sleep(25);
    }
  }
}

async function safely(file) {
  const dir = path.dirname(file);
  if (!roots.has(dir)) roots.set(dir, await root(dir));
  return [roots.get(dir), path.basename(file)];
}

// The text with a block behind its last line, as an edit does that quotes this line.
function edited(old, text) {
  const line = old.split('\n').filter((each) => each !== '' && each !== CLOSER).at(-1);
  const end = old.lastIndexOf(`${line}\n`) + line.length + 1;
  return old.slice(0, end) + text + old.slice(end);
}

// What a verifying read must find: the lines that were written, but for poison that was taken out and for
// memfw's own lines, which may be there or not.
function kept(written) {
  const lines = written.split('\n');
  const isPoison = (line) => line.includes('.evil.com');
  return lines.filter((line, at) => {
    const second = line.startsWith('  She said so') && isPoison(lines[at - 1]);
    return line.trim() !== '' && !line.startsWith('<!-- ') && !isPoison(line) && !second;
  });
}

const WAYS = {
  async write({ file, text, gap }) {
    const old = await fs.readFile(file, 'utf8');
    await sleep(gap);
    await fs.writeFile(file, old + text);
  },
  async edit({ file, text, gap }) {
    const all = edited(await fs.readFile(file, 'utf8'), text);
    await sleep(gap);
    await fs.writeFile(file, all);
    const found = kept(await fs.readFile(file, 'utf8')).join('\n');
    const wanted = kept(all).join('\n');
    if (found !== wanted) throw new Error(`the verifying read differs: ${JSON.stringify(found)}`);
  },
  async 'safe-write'({ file, text, gap }) {
    const [dir, name] = await safely(file);
    const old = await patiently(() => dir.readText(name));
    await sleep(gap);
    await patiently(() => dir.write(name, old + text));
  },
  async 'safe-append'({ file, text }) {
    const [dir, name] = await safely(file);
    await dir.append(name, text);
  },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  again = 0;
  try {
    await WAYS[request.way](request);
    console.log(`ok ${again}`);
  } catch (error) {
    console.log(`error ${error.code}: ${error.message}`.replaceAll('\n', ' '));
  }
}
