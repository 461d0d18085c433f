#!/usr/bin/env bash
# Everything that a release consists of, with checksums and a bill of materials:
#
#   packaging/all.sh [--check] [--twice] [OUT]
#
# OUT, by default target/dist, has afterwards: an archive for x86-64 and one for aarch64, the Debian package, the
# image for containers, the recipes of other package managers, the bill of materials, and SHA256SUMS of all. With
# `--check` each is installed or unpacked in an empty root, as far as this machine has the tools, and the program
# runs there; with `--twice` the archives are built a second time and must be identical. MEMFW_BASE_URL is the
# address at which OUT will be published; without it the recipes name this directory.
#
# What cannot be made here is named at the end, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=() twice=()
while :; do
  case ${1:-} in
    --check) check=(--check) ;;
    --twice) twice=(--twice) ;;
    *) break ;;
  esac
  shift
done
mkdir -p "${1:-target/dist}"
out=$(cd "${1:-target/dist}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

rm -rf "$out"/memfw-* "$out"/memfw_* "$out/recipes" "$out/SHA256SUMS"
missing=()
# made WHAT COMMAND...: runs it; a step that is not possible here is noted.
made() {
  local what=$1 status=0
  shift
  printf '\n== %s\n' "$what"
  "$@" || status=$?
  case $status in
    0) ;;
    77) missing+=("$what") ;;
    *) exit "$status" ;;
  esac
  return 0
}

programs=()
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
  made "archive for $target" env MEMFW_TARGET=$target packaging/release.sh "${twice[@]}" "$out"
  if [ -x "$out/memfw-$version-$target/memfw" ]; then programs+=("$out/memfw-$version-$target/memfw"); fi
done
[ ${#programs[@]} -gt 0 ] || { echo "error: no archive could be made" >&2; exit 1; }
x86_64=$out/memfw-$version-x86_64-unknown-linux-musl/memfw
case $(uname -m) in
  x86_64)
    if [ -x "$x86_64" ]; then
      made "Debian package" env MEMFW_PROGRAM="$x86_64" packaging/deb.sh "${check[@]}" "$out"
    else
      missing+=("Debian package")
    fi
    ;;
  *) made "Debian package" packaging/deb.sh "${check[@]}" "$out" ;;
esac
made "image for containers" packaging/oci.sh "${check[@]}" "$out/memfw-$version-oci.tar" "${programs[@]}"
made "bill of materials" packaging/sbom.sh "$out/memfw-$version.cdx.json"
sums() { (cd "$out" && find . -maxdepth 1 -type f ! -name '*SUMS' -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS); }
sums
made "recipes" packaging/recipes.sh "$out" "${MEMFW_BASE_URL:-file://$out}"
if [ ${#check[@]} -gt 0 ]; then made "package for Arch Linux" packaging/arch.sh "$out"; fi
for program in "${programs[@]}"; do rm -rf "$(dirname "$program")"; done

printf '\n'
cat "$out/SHA256SUMS"
if [ ${#missing[@]} -gt 0 ]; then
  printf 'not made or not checked:'
  printf ' %s;' "${missing[@]}"
  printf '\n'
fi
