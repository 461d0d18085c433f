#!/usr/bin/env bash
# An image for containers that guards a mounted directory, as an archive of an OCI image layout:
#
#   packaging/oci.sh [--check] OUT PROGRAM...
#
# Each PROGRAM needs no library and is for another architecture. The image has nothing but the program, and its
# layers depend neither on the machine nor on the time. `skopeo copy`, `podman load` and `docker load` (from version
# 25 on) read it. With `--check` the image is unpacked into an empty root, and the program for this machine guards a
# directory there. Exit status 77: that is not possible here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=
if [ "${1:-}" = --check ]; then check=yes; shift; fi
out=${1:?the archive to be written}
shift
[ $# -gt 0 ] || { echo "error: no program" >&2; exit 2; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC
umask 022
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"

tar_of() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf - .
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# put FILE: moves it to the blobs, and prints its digest and size.
put() {
  local sum
  sum=$(digest "$1")
  mv "$1" "$blobs/$sum"
  echo "$sum $(stat -c %s "$blobs/$sum")"
}

# architecture PROGRAM: its name in an image, from the header of the file.
architecture() {
  case $(od -An -tx1 -j18 -N1 "$1" | tr -d ' ') in
    3e) echo amd64 ;;
    b7) echo arm64 ;;
    *) echo "error: $1 is for another machine than x86-64 and aarch64" >&2; exit 2 ;;
  esac
}

manifests=
for program in "$@"; do
  arch=$(architecture "$program")
  root=$work/root-$arch
  mkdir -p "$root/usr/bin" "$root/usr/share/licenses/memfw" "$root/workspace" "$root/data" "$root/tmp"
  install -m 755 "$program" "$root/usr/bin/memfw"
  install -m 644 LICENSE-MIT LICENSE-APACHE "$root/usr/share/licenses/memfw/"
  # Whoever owns the mounted directory runs the program.
  chmod 1777 "$root/data" "$root/tmp"
  tar_of "$root" >"$work/layer.tar"
  diff_id=$(digest "$work/layer.tar")
  gzip -n -9 <"$work/layer.tar" >"$work/layer.tar.gz"
  read -r layer layer_size < <(put "$work/layer.tar.gz")
  cat >"$work/config.json" <<JSON
{"created":"$created","architecture":"$arch","os":"linux",
"config":{"Entrypoint":["/usr/bin/memfw"],"Cmd":["run","--workspace","/workspace"],
"Env":["MEMFW_HOME=/data","PATH=/usr/bin"],"Volumes":{"/workspace":{},"/data":{}},"StopSignal":"SIGTERM",
"Labels":{"org.opencontainers.image.title":"memfw","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},
"history":[{"created":"$created","created_by":"packaging/oci.sh"}]}
JSON
  read -r config config_size < <(put "$work/config.json")
  cat >"$work/manifest.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
JSON
  read -r manifest manifest_size < <(put "$work/manifest.json")
  manifests+="${manifests:+,}
{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:$manifest\",\"size\":$manifest_size,"
  manifests+="\"platform\":{\"architecture\":\"$arch\",\"os\":\"linux\"}}"
done
# The index of all architectures is a blob, too: a name of the layout stands for one image.
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}\n' "$manifests" \
  >"$work/index.json"
read -r index index_size < <(put "$work/index.json")
printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,"annotations":{%s}}]}\n' \
  application/vnd.oci.image.index.v1+json "$index" "$index_size" \
  "\"org.opencontainers.image.ref.name\":\"memfw:$version\"" >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}\n' >"$work/layout/oci-layout"
mkdir -p "$(dirname "$out")"
tar_of "$work/layout" >"$out"
echo "$out"
[ -n "$check" ] || exit 0

skip() { echo "SKIPPED: $*" >&2; exit 77; }
case $(uname -m) in
  x86_64) mine=amd64 ;;
  aarch64) mine=arm64 ;;
  *) skip "no program for this machine; the image was NOT run" ;;
esac
[ -d "$work/root-$mine" ] || skip "no program for this machine; the image was NOT run"
if [ "$(id -u)" -eq 0 ]; then enter=(chroot --userspec=65534:65534); else enter=(unshare -r chroot); fi
# What a runtime makes of it: the layer that the manifest names, in an empty root.
unpacked=$work/unpacked
mkdir -p "$unpacked" "$work/read"
tar -C "$work/read" -xf "$out"
for blob in "$work"/read/blobs/sha256/*; do
  [ "$(digest "$blob")" = "$(basename "$blob")" ] || { echo "error: $blob is damaged" >&2; exit 1; }
  # Of the blobs only a manifest names a layer.
  layer=$(sed -n 's/.*tar+gzip","digest":"sha256:\([0-9a-f]*\)".*/\1/p' "$blob")
  [ -n "$layer" ] || continue
  rm -rf "$work/tried"
  mkdir "$work/tried"
  tar -C "$work/tried" -xzpf "$work/read/blobs/sha256/$layer"
  if [ "$(architecture "$work/tried/usr/bin/memfw")" = "$mine" ]; then mv "$work/tried"/* "$unpacked/"; fi
done
printf '# Memory\n' >"$unpacked/workspace/MEMORY.md"
chmod -R a+rwX "$unpacked/workspace"
if [ "$(id -u)" -eq 0 ]; then chown -R 65534:65534 "$unpacked/workspace"; fi
env -i PATH="$PATH" MEMFW_HOME=/data "${enter[@]}" "$unpacked" /usr/bin/memfw run --once --workspace /workspace 2>"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
[ -f "$unpacked/data/data/ledger.sqlite" ] || { echo "error: nothing was guarded" >&2; cat "$work/log" >&2; exit 1; }
echo "unpacked and run in an empty root"
