#!/usr/bin/env bash
# Makes the Debian package, and with `--check` installs and removes it in an empty root:
#
#   packaging/deb.sh [--check] [OUT]
#
# MEMFW_PROGRAM names a program that is already built; without it a release is built. Exit status 77: not
# possible here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PATH:/usr/sbin:/sbin
check=
if [ "${1:-}" = --check ]; then check=yes; shift; fi
out=${1:-target/package/deb}
cache=${MEMFW_CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/memfw-ci}

skip() { echo "SKIPPED: $*" >&2; exit 77; }

deb=$(command -v cargo-deb || true)
if [ -z "$deb" ] && [ -x "$cache/bin/cargo-deb" ]; then deb=$cache/bin/cargo-deb; fi
[ -n "$deb" ] || skip "there is no cargo-deb (\`cargo install cargo-deb --locked\`); no package was made"

# cargo-deb looks for the program below the target directory, in the place of a release.
target=${CARGO_TARGET_DIR:-target}
flags=()
if [ -n "${MEMFW_PROGRAM:-}" ]; then
  target=$(pwd)/target/package/target
  mkdir -p "$target/release"
  cp "$MEMFW_PROGRAM" "$target/release/memfw"
  # Most of a program that is not a release is debugging information.
  strip "$target/release/memfw" 2>/dev/null || true
  flags=(--fast)
else
  cargo build --release --locked
fi
packaging/stage.sh "$target/release/memfw" target/package/usr
mkdir -p "$out"
# The same source makes the same package, whenever it is made.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
file=$(CARGO_TARGET_DIR=$target "$deb" deb --no-build --no-strip --locked "${flags[@]}" --output "$out" | tail -n 1)
echo "$file"
[ -n "$check" ] || exit 0

command -v dpkg >/dev/null || skip "there is no dpkg; the package was NOT installed"
as=()
if [ "$(id -u)" -ne 0 ]; then
  command -v fakeroot >/dev/null || skip "neither root nor fakeroot; the package was NOT installed"
  as=(fakeroot)
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/log"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
# The dependencies are not in an empty root, and only unpacking is tested here.
dpkg=("${as[@]}" dpkg "--root=$root" --force-not-root --force-depends --force-bad-path --log=/dev/null)
"${dpkg[@]}" --install "$file" >/dev/null
dpkg-query "--admindir=$root/var/lib/dpkg" --show memfw
for path in usr/bin/memfw usr/lib/systemd/user/memfw.service "usr/lib/systemd/system/memfw-gate@.service" \
  usr/share/doc/memfw/README.md usr/share/doc/memfw/copyright; do
  # Larger documents are compressed.
  [ -f "$root/$path" ] || [ -f "$root/$path.gz" ] || { echo "error: $path is not there" >&2; exit 1; }
done
if grep -rl -e '\.cargo/bin' -e '/usr/local/bin' "$root/usr/lib/systemd"; then
  echo "error: a unit does not start the program of the package" >&2
  exit 1
fi
home=$root/home
mkdir -p "$home/notes"
printf '# Memory\n' >"$home/notes/MEMORY.md"
env -i HOME="$home" MEMFW_HOME="$home/memfw" "$root/usr/bin/memfw" --version
env -i HOME="$home" MEMFW_HOME="$home/memfw" "$root/usr/bin/memfw" run --once --workspace "$home/notes" 2>/dev/null
"${dpkg[@]}" --purge memfw >/dev/null
left=$(find "$root/usr" ! -type d 2>/dev/null || true)
[ -z "$left" ] || { echo "error: the package leaves behind: $left" >&2; exit 1; }
[ -f "$home/memfw/data/ledger.sqlite" ] || { echo "error: it took the user's data along" >&2; exit 1; }
echo "installed, run and removed in an empty root"
