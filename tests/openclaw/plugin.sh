#!/bin/sh
# plugin.sh MEMFW: memfw's plugin, with children and events that are wrong, and in the real OpenClaw; see child.mjs,
# command.mjs, notices.mjs, package.mjs, plugin.mjs, chat.mjs, telegram.mjs, policy.mjs,
# judge.mjs and run.sh.
here=$(dirname "$0")
"$here/run.sh" --install || exit
for script in child command notices; do
  "$here/run.sh" "$script.mjs" "$1" || exit
done
# Each of the others has a home and a port of its own and mostly waits for OpenClaw: two at a time, the longest first.
# `xargs` reports that one of them failed.
# shellcheck disable=SC2016
printf '%s\n' plugin package telegram chat policy judge | xargs -P 2 -I '{}' sh -c '
  said=$("$1/run.sh" "$2.mjs" "$3" 2>&1)
  status=$?
  printf "%s\n" "$said"
  [ "$status" -eq 0 ] || echo "error: $2.mjs ended with $status"
  exit "$status"' sh "$here" '{}' "$1"
