// What the installation wrote beside this file. It is fixed then, because a gateway also reads variables from a
// `.env` file in the directory in which it is started, and that may be a directory that the agent writes to.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { record, string } from './checked.js';

/** What a copy that memfw did not install gives to the child: where memfw and OpenClaw keep their files, no secret. */
const VARIABLES = [
  'HOME', 'PATH', 'USER', 'LANG', 'TZ', 'TMPDIR', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'MEMFW_HOME', 'MEMFW_LOG',
  'OPENCLAW_CONFIG_PATH', 'OPENCLAW_HOME', 'OPENCLAW_PROFILE', 'OPENCLAW_STATE_DIR', 'OPENCLAW_WORKSPACE_DIR',
];

/** Why a call is refused that would change memfw itself. */
export const OWN_FILES =
  'memfw: this call would change files of memfw itself (own-files). Nothing was written. Only the owner changes memfw: tell the owner what you wanted to do, and do not try it in another way.';

/** Longest path, in characters: beyond what a system opens (4096 bytes), with room for an escaped URL. */
const MAX_PATH = 3 * 4096;

export interface Installed {
  /** The program. */
  program: string;
  /** The whole environment of the child. */
  env: NodeJS.ProcessEnv;
  /** The directories of memfw itself, which no tool of the agent may write to. */
  own: string[];
}

/** What the installation wrote. */
export function installed(): Installed {
  const here = path.dirname(fileURLToPath(import.meta.url));
  let found;
  try {
    found = record(JSON.parse(fs.readFileSync(path.join(here, 'program.json'), 'utf8')));
  } catch {
    // A copy that was not installed by memfw.
  }
  const env: NodeJS.ProcessEnv = {};
  const variables = record(found?.env);
  for (const name of variables ? Object.keys(variables) : VARIABLES) {
    const value = string(variables ? variables[name] : process.env[name]);
    if (value !== undefined) env[name] = value;
  }
  const own = Array.isArray(found?.own) ? found.own.filter((dir) => typeof dir === 'string' && dir !== '') : [];
  return { program: string(found?.program) || 'memfw', env, own: [here, ...own] };
}

/** Whether a path that a call names leads into one of these directories, as OpenClaw's tools read a path. */
export function leadsInto(dirs: string[], named: string[], workspace: string | undefined): boolean {
  // OpenClaw shortens some names before it opens them, so that one of any length may lead there.
  if (named.some((one) => one.length > MAX_PATH)) return true;
  const ends = new Set(dirs.flatMap((dir) => [dir, real(dir)]));
  return named
    .map((one) => meant(one, workspace))
    .some((plain) => plain !== undefined && [plain, real(plain)].some((place) => [...ends].some((dir) => isIn(dir, place))));
}

/** The absolute path that a name in a call means; nothing if it means none. */
function meant(named: string, workspace: string | undefined): string | undefined {
  let plain = named
    .replace(/<\/arg_value>>+$/, '')
    .replace(/[\u00a0\u2000-\u200a\u202f\u205f\u3000]/g, ' ')
    .trim()
    .replace(/^@/, '');
  if (plain.startsWith('file:')) {
    try {
      plain = fileURLToPath(plain);
    } catch {
      return undefined;
    }
  }
  if (plain === '~' || plain.startsWith('~/')) plain = path.join(os.homedir(), plain.slice(1));
  if (path.isAbsolute(plain)) return path.normalize(plain);
  return workspace === undefined ? undefined : path.join(workspace, plain);
}

function isIn(dir: string, place: string): boolean {
  // The file system of macOS mostly does not tell cases apart.
  const same = (text: string) => (process.platform === 'darwin' ? text.toLowerCase() : text);
  const below = path.relative(same(dir), same(place));
  return below === '' || !(below === '..' || below.startsWith(`..${path.sep}`) || path.isAbsolute(below));
}

/** The path without links, as far as it exists. */
function real(place: string): string {
  try {
    return fs.realpathSync.native(place);
  } catch {
    // From the top, so that it takes as many steps as there are directories, not as a name has parts.
  }
  const parts = place.split(path.sep).filter((part) => part !== '');
  let found: string = path.sep;
  for (const [at, part] of parts.entries()) {
    try {
      found = fs.realpathSync.native(path.join(found, part));
    } catch {
      return path.join(found, ...parts.slice(at));
    }
  }
  return found;
}
