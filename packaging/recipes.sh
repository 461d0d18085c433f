#!/usr/bin/env bash
# Fills in the recipes of other package managers, from the archives of a release:
#
#   packaging/recipes.sh DIST BASE_URL
#
# DIST has the archives and SHA256SUMS (`packaging/all.sh`); BASE_URL is where they will be published. The recipes
# are DIST/recipes/memfw.rb (Homebrew), DIST/recipes/PKGBUILD and .SRCINFO (Arch Linux). The flake of Nix builds from
# the sources and needs nothing. Exit status 77: an archive is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dist=${1:?the directory with the archives} base=${2:?the address at which the archives will be}
case $base in
  *[!A-Za-z0-9._~:/%+-]*) echo "error: \`$base\` is not a plain address" >&2; exit 2 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# sum ARCHITECTURE: prints the checksum of its archive.
sum() {
  local name=memfw-$version-$1-unknown-linux-musl.tar.gz found
  found=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\$/\1/p" "$dist/SHA256SUMS")
  [ -n "$found" ] || { echo "SKIPPED: there is no $name in $dist/SHA256SUMS; no recipe was made" >&2; exit 77; }
  echo "$found"
}

x86_64=$(sum x86_64)
aarch64=$(sum aarch64)
mkdir -p "$dist/recipes"
for recipe in memfw.rb PKGBUILD; do
  sed -e '/^# .*packaging\/recipes.sh/s/ `packaging.*//' -e "s#@BASE_URL@#${base%/}#g" -e "s#@VERSION@#$version#g" \
    -e "s#@SHA256_X86_64@#$x86_64#g" -e "s#@SHA256_AARCH64@#$aarch64#g" \
    "packaging/recipes/$recipe" >"$dist/recipes/$recipe"
done

# What Arch's repository reads instead of the script: the same values, evaluated.
srcinfo() (
  # shellcheck disable=SC1091
  source "$dist/recipes/PKGBUILD"
  printf 'pkgbase = %s\n' "$pkgname"
  printf '\tpkgdesc = %s\n\tpkgver = %s\n\tpkgrel = %s\n\turl = %s\n' "$pkgdesc" "$pkgver" "$pkgrel" "$url"
  printf '\tarch = %s\n' "${arch[@]}"
  printf '\tlicense = %s\n' "${license[@]}"
  printf '\tprovides = %s\n' "${provides[@]}"
  printf '\tconflicts = %s\n' "${conflicts[@]}"
  printf '\toptions = %s\n' "${options[@]}"
  printf '\tsource_x86_64 = %s\n\tsha256sums_x86_64 = %s\n' "${source_x86_64[0]}" "${sha256sums_x86_64[0]}"
  printf '\tsource_aarch64 = %s\n\tsha256sums_aarch64 = %s\n' "${source_aarch64[0]}" "${sha256sums_aarch64[0]}"
  printf '\npkgname = %s\n' "$pkgname"
)
srcinfo >"$dist/recipes/.SRCINFO"
ls -A "$dist/recipes"
