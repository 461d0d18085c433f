#!/bin/sh
# plugin.sh MEMFW: memfw's plugin, with children and events that are wrong, and in the real OpenClaw; see child.mjs,
# plugin.mjs and run.sh.
here=$(dirname "$0")
"$here/run.sh" child.mjs "$1" || exit
exec "$here/run.sh" plugin.mjs "$1"
