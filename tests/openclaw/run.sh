#!/bin/sh
# run.sh SCRIPT MEMFW [OPTION]...: runs a script of this directory with the real OpenClaw, installed with npm on the
# first run (650 MB). 77 where it cannot be installed. MEMFW_COMPAT_CACHE says where the packages are kept. With
# `--install` nothing else is done.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != --install ]; then
  script=$here/$1
  memfw=$(realpath "$2")
  shift 2
fi
cache=${MEMFW_COMPAT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/memfw-openclaw}
openclaw=2026.9.6
# OpenClaw wants 24.16 or newer.
node=24.21.0

install() { # DIR PACKAGE [OPTION]...
  dir=$1
  shift
  [ ! -e "$dir/.complete" ] || return 0
  echo "installing $1" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  echo '{"private":true}' >"$dir/package.json"
  (cd "$dir" && npm install "$@" --no-audit --no-fund --loglevel=error >&2) && touch "$dir/.complete"
}

command -v npm >/dev/null || { echo "there is no npm" >&2; exit 77; }
install "$cache/node-$node" "node@$node" || exit 77
install "$cache/openclaw-$openclaw" "openclaw@$openclaw" --ignore-scripts || exit 77
if [ "${1:-}" = --install ]; then exit; fi
exec "$cache/node-$node/node_modules/.bin/node" "$script" --memfw "$memfw" \
  --openclaw "$cache/openclaw-$openclaw/node_modules/openclaw/openclaw.mjs" "$@"
