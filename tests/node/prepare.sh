#!/bin/sh
# prepare.sh DIR: installs OpenClaw's safe writer, in the version and with the hashes of package-lock.json,
# beside a copy of writers.mjs. Fails where there is no npm or the packages cannot be had.
set -eu
dir=$1
here=$(cd "$(dirname "$0")" && pwd)
command -v node >/dev/null
mkdir -p "$dir"
cp "$here/writers.mjs" "$dir/"
if ! cmp -s "$here/package-lock.json" "$dir/installed"; then
  cp "$here/package.json" "$here/package-lock.json" "$dir/"
  (cd "$dir" && npm ci --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
  cp "$here/package-lock.json" "$dir/installed"
fi
