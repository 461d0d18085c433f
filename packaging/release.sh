#!/usr/bin/env bash
# A release: one program that needs no library, in an archive with its documents, and its checksums:
#
#   packaging/release.sh [--twice] [OUT]
#
# With `--twice` everything is built a second time from scratch, and must be identical byte for byte.
#
# MEMFW_TARGET selects the target. The default is musl if it is installed (`rustup target add
# x86_64-unknown-linux-musl`, and musl-gcc for SQLite), else the machine's own with a static C library. Another
# processor's target needs cargo-zigbuild and Zig for the C code (`pip install cargo-zigbuild ziglang`), and
# qemu-user, because the program prints its own man pages. Exit status 77: the target cannot be built here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
twice=
if [ "${1:-}" = --twice ]; then twice=yes; shift; fi
out=${1:-target/dist}

host=$(rustc -vV | sed -n 's/^host: //p')
musl=${host/-gnu/-musl}
if [ -z "${MEMFW_TARGET:-}" ]; then
  MEMFW_TARGET=$host
  if [ -d "$(rustc --print sysroot)/lib/rustlib/$musl" ] && command -v musl-gcc >/dev/null; then
    MEMFW_TARGET=$musl
  fi
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=memfw-$version-$MEMFW_TARGET

# The archive depends neither on the machine nor on the time: no paths, no times, no build id.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
built=$PWD/target/release-build
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0 LC_ALL=C TZ=UTC
export RUSTFLAGS="--remap-path-prefix=$built=/target --remap-path-prefix=$PWD=/memfw \
--remap-path-prefix=$cargo_home=/cargo -C link-arg=-Wl,--build-id=none"
export CFLAGS="-ffile-prefix-map=$built=/target -ffile-prefix-map=$PWD=/memfw -ffile-prefix-map=$cargo_home=/cargo"
case $MEMFW_TARGET in
  *-linux-*) RUSTFLAGS+=" -C target-feature=+crt-static" ;;
esac

skip() { echo "SKIPPED: $*" >&2; exit 77; }

build=(cargo build)
# What starts the program: nothing, or an emulator.
runner=()
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$MEMFW_TARGET" ]; then
  rustup target add "$MEMFW_TARGET" || skip "the standard library of $MEMFW_TARGET cannot be had; no archive was made"
fi
arch=${MEMFW_TARGET%%-*}
if [ "$arch" != "${host%%-*}" ]; then
  command -v "qemu-$arch" >/dev/null || skip "there is no qemu-$arch; no archive for $MEMFW_TARGET was made"
  runner=("qemu-$arch")
fi
case $MEMFW_TARGET in
  "$host") ;;
  "$musl") if ! command -v musl-gcc >/dev/null; then build=(cargo zigbuild); fi ;;
  *) build=(cargo zigbuild) ;;
esac
if [ "${build[1]}" = zigbuild ] && ! command -v cargo-zigbuild >/dev/null; then
  skip "there is no C compiler for $MEMFW_TARGET, nor cargo-zigbuild; no archive was made"
fi

make_one() {
  local to=$1
  rm -rf "$built" "$to/$name" "$to/$name.tar.gz"
  mkdir -p "$to/$name"
  CARGO_TARGET_DIR=$built "${build[@]}" --release --locked --target "$MEMFW_TARGET"
  cp "$built/$MEMFW_TARGET/release/memfw" "$to/$name/memfw"
  # The program itself, or what starts it.
  local program=$to/$name/memfw
  if [ ${#runner[@]} -gt 0 ]; then
    program=$(mktemp)
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${runner[*]}" "$(realpath "$to/$name/memfw")" >"$program"
    chmod +x "$program"
  fi
  packaging/stage.sh "$program" "$to/$name/usr"
  "$program" --version
  if [ ${#runner[@]} -gt 0 ]; then rm -f "$program"; fi
  # Units of a package, for package managers, and those for a program in one's own home.
  mv "$to/$name/usr/share" "$to/$name/usr/lib" "$to/$name/"
  cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$to/$name/"
  cp -r systemd "$to/$name/systemd"
  rm -rf "$to/$name/usr"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX \
    --format=ustar -C "$to" -cf - "$name" | gzip -n -9 >"$to/$name.tar.gz"
  (cd "$to" && sha256sum "$name.tar.gz" "$name/memfw" >"$name.SUMS")
  rm -rf "$built"
}

make_one "$out"
case $MEMFW_TARGET in
  *-linux-*)
    # A static program needs no library; the loader says so in one of two ways.
    if readelf -d "$out/$name/memfw" 2>/dev/null | grep -q NEEDED; then
      echo "error: the program needs libraries:" >&2
      readelf -d "$out/$name/memfw" | grep NEEDED >&2
      exit 1
    fi
    ;;
esac
cat "$out/$name.SUMS"
if [ -n "$twice" ]; then
  make_one "$out.again"
  if ! cmp "$out/$name.SUMS" "$out.again/$name.SUMS"; then
    echo "error: the second build is another one:" >&2
    cat "$out.again/$name.SUMS" >&2
    exit 1
  fi
  rm -rf "$out.again"
  echo "the same twice: $(stat -c %s "$out/$name/memfw") bytes, archive $(stat -c %s "$out/$name.tar.gz") bytes"
fi
