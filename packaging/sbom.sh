#!/usr/bin/env bash
# The software bill of materials of the program, in CycloneDX's JSON: all that is linked into it on Linux, from
# Cargo.lock:
#
#   packaging/sbom.sh OUT
#
# Needs cargo-cyclonedx (`cargo install cargo-cyclonedx --locked`). Exit status 77: it is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:?the file to be written}
cache=${MEMFW_CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/memfw-ci}
program=$(command -v cargo-cyclonedx || true)
if [ -z "$program" ] && [ -x "$cache/bin/cargo-cyclonedx" ]; then program=$cache/bin/cargo-cyclonedx; fi
if [ -z "$program" ]; then
  echo "SKIPPED: there is no cargo-cyclonedx (\`cargo install cargo-cyclonedx --locked\`); no bill of materials was made" >&2
  exit 77
fi
# With a time from outside there is no random serial number, so the same sources make the same file.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
"$program" cyclonedx --quiet --format json --no-build-deps \
  --target x86_64-unknown-linux-musl --override-filename memfw.sbom
mkdir -p "$(dirname "$out")"
# The folder of the sources is nobody's business, nor the same everywhere.
find . -maxdepth 1 -name 'memfw*.sbom*.json' -exec sed -i "s#path+file://$PWD#path+file:///memfw#g" {} +
find . -maxdepth 1 -name 'memfw*.sbom*.json' -exec mv {} "$out" \;
[ -s "$out" ] || { echo "error: no bill of materials was written" >&2; exit 1; }
echo "$out"
