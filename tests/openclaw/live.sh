#!/bin/sh
# live.sh MEMFW [PART,...]: what only the real OpenClaw can show; see live.mjs and run.sh.
exec "$(dirname "$0")/run.sh" live.mjs "$1" --only "${2:-index,flush,retrust,notice}"
