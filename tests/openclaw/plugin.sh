#!/bin/sh
# plugin.sh MEMFW [SCRIPT...]: memfw's plugin, with children and events that are wrong, and in the real OpenClaw, with
# other scripts beside it; MEMFW_OPENCLAW_JOBS says how many run at a time (2). See child.mjs,
# command.mjs, notices.mjs, package.mjs, plugin.mjs, chat.mjs, telegram.mjs, policy.mjs,
# judge.mjs, scenes.mjs and run.sh.
here=$(dirname "$0")
memfw=$1
shift
"$here/run.sh" --install || exit
for script in child command notices; do
  "$here/run.sh" "$script.mjs" "$memfw" || exit
done
# Each of the others has a home and a port of its own and mostly waits for OpenClaw: some at a time, the longest first.
# `xargs` reports that one of them failed.
# shellcheck disable=SC2016
printf '%s\n' "$@" plugin scenes package telegram chat policy judge | xargs -P "${MEMFW_OPENCLAW_JOBS:-2}" -I '{}' sh -c '
  said=$("$1/run.sh" "$2.mjs" "$3" 2>&1)
  status=$?
  printf "%s\n" "$said"
  [ "$status" -eq 0 ] || echo "error: $2.mjs ended with $status"
  exit "$status"' sh "$here" '{}' "$memfw"
