// Writes the JavaScript that OpenClaw loads: the TypeScript without its types. With --check, only says whether it
// is up to date.
import fs from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

const dir = new URL('./', import.meta.url);
let isStale = false;
for (const name of ['chat', 'checked', 'described', 'heard', 'index', 'installed', 'judge', 'link', 'notices', 'reads']) {
  const source = fs.readFileSync(new URL(`${name}.ts`, dir), 'utf8');
  // Types leave blanks behind.
  const script = stripTypeScriptTypes(source, { mode: 'strip' })
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n');
  const file = new URL(`${name}.js`, dir);
  if (process.argv.includes('--check')) {
    if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== script) {
      console.error(`${name}.js is not what build.mjs makes of ${name}.ts`);
      isStale = true;
    }
  } else {
    fs.writeFileSync(file, script);
  }
}
process.exitCode = isStale ? 1 : 0;
