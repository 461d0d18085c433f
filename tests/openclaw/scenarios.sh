#!/bin/sh
# scenarios.sh MEMFW FILE [OPTION]...: turns of a file of scenarios, played by the real OpenClaw while memfw guards;
# see scenarios.mjs and run.sh.
memfw=$1
file=$2
shift 2
exec "$(dirname "$0")/run.sh" scenarios.mjs "$memfw" --scenarios "$file" "$@"
