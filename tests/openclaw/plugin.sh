#!/bin/sh
# plugin.sh MEMFW: memfw's plugin, with children and events that are wrong, and in the real OpenClaw; see child.mjs,
# command.mjs, notices.mjs, package.mjs, plugin.mjs, chat.mjs, telegram.mjs, policy.mjs,
# judge.mjs and run.sh.
here=$(dirname "$0")
"$here/run.sh" child.mjs "$1" || exit
"$here/run.sh" command.mjs "$1" || exit
"$here/run.sh" notices.mjs "$1" || exit
"$here/run.sh" package.mjs "$1" || exit
"$here/run.sh" plugin.mjs "$1" || exit
"$here/run.sh" chat.mjs "$1" || exit
"$here/run.sh" telegram.mjs "$1" || exit
"$here/run.sh" policy.mjs "$1" || exit
exec "$here/run.sh" judge.mjs "$1"
