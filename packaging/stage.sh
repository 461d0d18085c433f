#!/usr/bin/env bash
# Puts what a package holds besides the program below one directory, as it will lie below /usr:
#
#   packaging/stage.sh PROGRAM DIR
#
# PROGRAM is asked for its man pages and completions; a memfw that cannot make them has none in its package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$1 dir=$2

rm -rf "$dir"
doc=$dir/share/doc/memfw
mkdir -p "$doc/adr" "$dir/lib/systemd/user" "$dir/lib/systemd/system"
cp README.md ARCHITECTURE.md CHANGELOG.md SECURITY.md CONTRIBUTING.md "$doc/"
find docs -maxdepth 1 -type f -exec cp {} "$doc/" \;
# The index of docs/ would stand in the place of the README.
cp docs/README.md "$doc/index.md"
cp README.md "$doc/README.md"
cp docs/adr/*.md "$doc/adr/"

# A unit belongs to a user's manager or to the system's, as its target says; the program is the package's.
for unit in systemd/*.service; do
  to=$dir/lib/systemd/user
  if grep -q '^WantedBy=multi-user.target' "$unit"; then to=$dir/lib/systemd/system; fi
  sed -e 's#%h/.cargo/bin/memfw#/usr/bin/memfw#g' -e 's#/usr/local/bin/memfw#/usr/bin/memfw#g' \
    "$unit" >"$to/$(basename "$unit")"
done

# asks OUTPUT ARGUMENT...: the answer of the program, where it has one.
asks() {
  local to=$1
  shift
  mkdir -p "$(dirname "$to")"
  if "$program" "$@" >"$to" 2>/dev/null && [ -s "$to" ]; then return; fi
  rm -f "$to"
  rmdir --ignore-fail-on-non-empty -p "$(dirname "$to")" 2>/dev/null || true
  echo "not in this memfw: \`memfw $*\`" >&2
}
# The page of memfw itself names those of its commands, so all of them go along.
"$program" man "$dir/share/man/man1" >/dev/null 2>&1 || echo "not in this memfw: \`memfw man\`" >&2
asks "$dir/share/bash-completion/completions/memfw" completions bash
asks "$dir/share/zsh/vendor-completions/_memfw" completions zsh
asks "$dir/share/fish/vendor_completions.d/memfw.fish" completions fish
find "$dir" -type d -exec chmod 755 {} +
find "$dir" -type f -exec chmod 644 {} +
