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

/** What the installation wrote. */
export function installed()            {
  const here = path.dirname(fileURLToPath(import.meta.url));
  let found;
  try {
    found = record(JSON.parse(fs.readFileSync(path.join(here, 'program.json'), 'utf8')));
  } catch {
    // A copy that was not installed by memfw.
  }
  const env                    = {};
  const variables = record(found?.env);
  for (const name of variables ? Object.keys(variables) : VARIABLES) {
    const value = string(variables ? variables[name] : process.env[name]);
    if (value !== undefined) env[name] = value;
  }
  const own = Array.isArray(found?.own) ? found.own.filter((dir) => typeof dir === 'string' && dir !== '') : [];
  return { program: string(found?.program) || 'memfw', env, own: [here, ...own] };
}

/** Whether a path leads into one of these directories, as OpenClaw's tools read a path. */
export function leadsInto(dirs          , named        , workspace                    )          {
  let plain = named
    .replace(/<\/arg_value>>+$/, '')
    .replace(/[\u00a0\u2000-\u200a\u202f\u205f\u3000]/g, ' ')
    .trim()
    .replace(/^@/, '');
  if (plain.startsWith('file:')) {
    try {
      plain = fileURLToPath(plain);
    } catch {
      return false;
    }
  }
  if (plain === '~' || plain.startsWith('~/')) plain = path.join(os.homedir(), plain.slice(1));
  if (!path.isAbsolute(plain)) {
    if (workspace === undefined) return false;
    plain = path.join(workspace, plain);
  }
  plain = path.normalize(plain);
  const places = [plain, real(plain)];
  return dirs.some((dir) => [dir, real(dir)].some((dir) => places.some((place) => isIn(dir, place))));
}

function isIn(dir        , place        )          {
  // The file system of macOS mostly does not tell cases apart.
  const same = (text        ) => (process.platform === 'darwin' ? text.toLowerCase() : text);
  const below = path.relative(same(dir), same(place));
  return below === '' || !(below === '..' || below.startsWith(`..${path.sep}`) || path.isAbsolute(below));
}

/** The path without links, as far as it exists. */
function real(place        )         {
  const rest           = [];
  for (let at = place; ; at = path.dirname(at)) {
    try {
      return path.join(fs.realpathSync.native(at), ...rest);
    } catch {
      if (path.dirname(at) === at) return place;
      rest.unshift(path.basename(at));
    }
  }
}
