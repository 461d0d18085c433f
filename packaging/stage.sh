#!/usr/bin/env bash
# Puts the files of a package, except the program, below one directory, as they will be below /usr:
#
#   packaging/stage.sh PROGRAM DIR
#
# PROGRAM prints its man pages and completions; a package of a memfw that cannot print them has none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$1 dir=$2

rm -rf "$dir"
doc=$dir/share/doc/memfw
mkdir -p "$doc/adr" "$dir/lib/systemd/user" "$dir/lib/systemd/system"
cp README.md ARCHITECTURE.md CHANGELOG.md SECURITY.md CONTRIBUTING.md "$doc/"
find docs -maxdepth 1 -type f -exec cp {} "$doc/" \;
# The index of docs/ would replace the README.
cp docs/README.md "$doc/index.md"
cp README.md "$doc/README.md"
cp docs/adr/*.md "$doc/adr/"

# The target of a unit says whether it is for a user's manager or the system's; the units run the package's
# program.
for unit in systemd/*.service; do
  to=$dir/lib/systemd/user
  if grep -q '^WantedBy=multi-user.target' "$unit"; then to=$dir/lib/systemd/system; fi
  sed -e 's#%h/.cargo/bin/memfw#/usr/bin/memfw#g' -e 's#/usr/local/bin/memfw#/usr/bin/memfw#g' \
    "$unit" >"$to/$(basename "$unit")"
done

# asks OUTPUT ARGUMENT...: writes the output of the program, if there is any.
asks() {
  local to=$1
  shift
  mkdir -p "$(dirname "$to")"
  if "$program" "$@" >"$to" 2>/dev/null && [ -s "$to" ]; then return; fi
  rm -f "$to"
  rmdir --ignore-fail-on-non-empty -p "$(dirname "$to")" 2>/dev/null || true
  echo "not in this memfw: \`memfw $*\`" >&2
}
# The man page of memfw itself refers to those of its commands, so the package contains all of them.
"$program" man "$dir/share/man/man1" >/dev/null 2>&1 || echo "not in this memfw: \`memfw man\`" >&2
asks "$dir/share/bash-completion/completions/memfw" completions bash
asks "$dir/share/zsh/vendor-completions/_memfw" completions zsh
asks "$dir/share/fish/vendor_completions.d/memfw.fish" completions fish
find "$dir" -type d -exec chmod 755 {} +
find "$dir" -type f -exec chmod 644 {} +
