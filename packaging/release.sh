#!/usr/bin/env bash
# A release: one program that needs no library, in an archive with its documents, and checksums:
#
#   packaging/release.sh [--twice] [OUT]
#
# With `--twice` everything is built a second time from scratch, and must be identical byte for byte.
#
# MEMFW_TARGET selects the target. The default is musl if it is installed (`rustup target add
# x86_64-unknown-linux-musl`, and musl-gcc for SQLite), else the machine's own with a static C library.
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
build=$PWD/target/release-build
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0 LC_ALL=C TZ=UTC
export RUSTFLAGS="--remap-path-prefix=$build=/target --remap-path-prefix=$PWD=/memfw \
--remap-path-prefix=$cargo_home=/cargo -C link-arg=-Wl,--build-id=none"
export CFLAGS="-ffile-prefix-map=$build=/target -ffile-prefix-map=$PWD=/memfw -ffile-prefix-map=$cargo_home=/cargo"
case $MEMFW_TARGET in
  *-linux-*) RUSTFLAGS+=" -C target-feature=+crt-static" ;;
esac

make_one() {
  local to=$1
  rm -rf "$build" "$to/$name" "$to/$name.tar.gz"
  mkdir -p "$to/$name"
  CARGO_TARGET_DIR=$build cargo build --release --locked --target "$MEMFW_TARGET"
  cp "$build/$MEMFW_TARGET/release/memfw" "$to/$name/memfw"
  packaging/stage.sh "$to/$name/memfw" "$to/$name/usr"
  mv "$to/$name/usr/share" "$to/$name/share"
  cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$to/$name/"
  cp -r systemd "$to/$name/systemd"
  rm -rf "$to/$name/usr"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX \
    --format=ustar -C "$to" -cf - "$name" | gzip -n -9 >"$to/$name.tar.gz"
  (cd "$to" && sha256sum "$name.tar.gz" "$name/memfw" >SHA256SUMS)
  rm -rf "$build"
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
"$out/$name/memfw" --version
cat "$out/SHA256SUMS"
if [ -n "$twice" ]; then
  make_one "$out.again"
  if ! cmp "$out/SHA256SUMS" "$out.again/SHA256SUMS"; then
    echo "error: the second build is another one:" >&2
    cat "$out.again/SHA256SUMS" >&2
    exit 1
  fi
  rm -rf "$out.again"
  echo "the same twice: $(stat -c %s "$out/$name/memfw") bytes, archive $(stat -c %s "$out/$name.tar.gz") bytes"
fi
