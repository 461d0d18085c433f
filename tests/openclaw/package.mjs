// memfw's plugin as a package, judged by the real OpenClaw: its manifest is what `plugins build` would write, `plugins
// validate` finds no error, and installed and loaded (`plugins inspect --runtime`, `plugins doctor`) nothing of it is
// blocked, missing or warned about. Packages with a mistake are told.
//
//   node package.mjs --memfw PROGRAM --openclaw openclaw.mjs [--keep]
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { Stage } from './stage.mjs';

const { values: options } = parseArgs({
  options: {
    memfw: { type: 'string' },
    openclaw: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

const source = path.join(path.dirname(new URL(import.meta.url).pathname), '../../integrations/openclaw');
const stage = new Stage('package', options);

/** A copy of the package, as memfw's program has it, with one file changed. */
function copy(name, file, change) {
  const dir = path.join(stage.dir, name);
  const isPackaged = (from) => !from.endsWith('.ts') && !from.endsWith('.mjs');
  fs.cpSync(source, dir, { recursive: true, filter: isPackaged });
  if (file) fs.writeFileSync(path.join(dir, file), change(fs.readFileSync(path.join(dir, file), 'utf8')));
  return dir;
}

const build = (dir) => stage.claw('plugins', 'build', '--root', dir, '--check');
const validate = (dir) => stage.claw('plugins', 'validate', '--root', dir);

/** What OpenClaw says of the installed plugin once it has loaded it, and of all plugins. */
async function loaded() {
  const inspected = await stage.claw('plugins', 'inspect', 'memfw', '--runtime', '--json');
  assert.equal(inspected.status, 0, inspected.output);
  const doctor = await stage.claw('plugins', 'doctor', '--json');
  return { inspected: JSON.parse(inspected.output), doctor: JSON.parse(doctor.output) };
}

let failed = true;
try {
  await stage.configure();
  const good = copy('good');
  assert.match((await build(good)).output, /Plugin metadata is up to date/);
  assert.match((await validate(good)).output, /Plugin memfw is valid/);

  // A manifest that admits other settings than the plugin has is told by both.
  const stale = copy('stale', 'openclaw.plugin.json', (text) => text.replace('"maximum": 5000', '"maximum": 9000'));
  for (const [command, why] of [[build, /out of date/], [validate, /stale/]]) {
    const { status, output } = await command(stale);
    assert.equal(status, 1, output);
    assert.match(output, why);
  }

  // Installed by memfw and loaded by OpenClaw: what it registers is what the documentation says, without a word of
  // warning.
  fs.writeFileSync(stage.memory, '# Memory\n\n- Ann likes tea.\n');
  const program = path.join(stage.dir, 'openclaw');
  fs.writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${options.openclaw}' "$@"\n`, { mode: 0o755 });
  fs.writeFileSync(path.join(stage.config, 'config.toml'), `[agent]\nprogram = "${program}"\n`);
  stage.memfw('run', '--once');
  stage.memfw('openclaw', 'install', '--accept-capabilities');
  const { inspected, doctor } = await loaded();
  assert.deepEqual(inspected.diagnostics, []);
  assert.deepEqual(inspected.compatibility, []);
  assert.deepEqual(
    [doctor.ok, doctor.pluginErrors, doctor.diagnostics, doctor.compatibility, doctor.configurationWarnings],
    [true, [], [], [], []],
  );
  assert.deepEqual([inspected.plugin.status, inspected.plugin.activated], ['loaded', true]);
  const hooks = [...new Set(inspected.typedHooks.map(({ name }) => name))].sort();
  assert.deepEqual(hooks, [
    'after_tool_call', 'before_tool_call', 'gateway_start', 'gateway_stop', 'model_call_ended', 'model_call_started',
  ]);
  assert.deepEqual(inspected.customHooks, [{ name: 'memfw-recall', events: ['agent:bootstrap'] }]);
  assert.deepEqual([inspected.commands, inspected.tools], [['memfw'], []]);
  const { services, gatewayMethods, mcpServers, lspServers, httpRouteCount } = inspected;
  assert.deepEqual([services, gatewayMethods, mcpServers, lspServers, httpRouteCount], [[], [], [], [], 0]);
  stage.memfw('openclaw', 'uninstall');

  // A hook that OpenClaw does not give to a plugin of this kind, and a module that does not load, are told.
  const hook = copy('hook', 'index.js', (text) => text.replaceAll("'model_call_ended'", "'agent_end'"));
  const broken = copy('broken', 'index.js', (text) => text.replace('./heard.js', './nothing.js'));
  for (const [dir, why] of [[hook, /"agent_end\\?" blocked/], [broken, /nothing\.js/]]) {
    const { output } = await stage.claw('plugins', 'install', dir, '--force', '--accept-capabilities');
    const { output: said } = await stage.claw('plugins', 'doctor', '--json');
    assert.match(said, why, output);
    assert.match(said, /"ok": false/);
  }
  console.log(`the package is what OpenClaw would build, and loads with ${hooks.length} hooks and nothing blocked`);
  failed = false;
} finally {
  stage.end(failed || options.keep);
}
