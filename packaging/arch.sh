#!/usr/bin/env bash
# Makes the package for Arch Linux from the recipe in DIST, and installs and removes it in an empty root:
#
#   packaging/arch.sh DIST
#
# The recipe has to name DIST itself (`packaging/recipes.sh DIST file://DIST`). Exit status 77: there is no makepkg.
set -euo pipefail
dist=$(cd "${1:?the directory with the recipes}" && pwd)
skip() { echo "SKIPPED: $*" >&2; exit 77; }
for tool in makepkg pacman bsdtar; do
  command -v "$tool" >/dev/null || skip "there is no $tool; no package for Arch Linux was made"
done
[ "$(id -u)" -eq 0 ] || skip "only root installs into another root"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$dist/recipes/PKGBUILD" "$work/"
# makepkg refuses root, and reads the archive as another user.
cp "$dist"/*.tar.gz "$work/"
sed -i "s#^url=.*#url='file://$work'#" "$work/PKGBUILD"
chown -R 65534:65534 "$work"
chmod 755 "$work"
as=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$work" PATH="$PATH")
(cd "$work" && "${as[@]}" makepkg --nodeps --noconfirm --nosign --noprogressbar >log 2>&1) || { cat "$work/log" >&2; exit 1; }
package=$(find "$work" -maxdepth 1 -name 'memfw-bin-*.pkg.tar*' | head -n 1)
# The values of .SRCINFO are those that makepkg itself prints.
(cd "$work" && "${as[@]}" makepkg --printsrcinfo) | sed "s#file://$work#@#" | grep -v '^#' | sort >"$work/theirs"
base=$(sed -n "s/^url='\(.*\)'/\1/p" "$dist/recipes/PKGBUILD")
sed "s#$base#@#" "$dist/recipes/.SRCINFO" | sort >"$work/ours"
diff <(grep . "$work/ours") <(grep . "$work/theirs") >&2 || { echo "error: .SRCINFO is not that of the recipe" >&2; exit 1; }

root=$work/root
mkdir -p "$root/var/lib/pacman" "$root/etc" "$root/srv/notes"
pacman=(pacman --root "$root" --dbpath "$root/var/lib/pacman" --config /dev/null --noconfirm --noscriptlet)
"${pacman[@]}" --upgrade --nodeps --nodeps "$package" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
printf '# Memory\n' >"$root/srv/notes/MEMORY.md"
home=$root/srv
env -i HOME="$home" MEMFW_HOME="$home/memfw" "$root/usr/bin/memfw" run --once --workspace "$home/notes" 2>/dev/null
[ -f "$root/usr/lib/systemd/user/memfw.service" ] || { echo "error: there is no unit" >&2; exit 1; }
"${pacman[@]}" --remove memfw-bin >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
left=$(find "$root/usr" ! -type d 2>/dev/null || true)
[ -z "$left" ] || { echo "error: the package leaves behind: $left" >&2; exit 1; }
[ -f "$home/memfw/data/ledger.sqlite" ] || { echo "error: it took the user's data along" >&2; exit 1; }
echo "installed, run and removed in an empty root"
