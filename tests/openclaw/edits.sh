#!/bin/sh
# edits.sh MEMFW [EDITS]: edits by OpenClaw's own tool while memfw guards; see edits.mjs and run.sh.
exec "$(dirname "$0")/run.sh" edits.mjs "$1" --edits "${2:-200}"
