#!/bin/sh
# plugin.sh MEMFW: memfw's plugin in the real OpenClaw; see plugin.mjs and run.sh.
exec "$(dirname "$0")/run.sh" plugin.mjs "$1"
