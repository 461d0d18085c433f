#!/usr/bin/env bash
# The encoder on processors that this machine is not: the same bits without AVX and with AVX2 as with what is
# here. Needs qemu's user mode emulation; exits with 77 where it is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v qemu-x86_64 >/dev/null; then exit 77; fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export CARGO_TERM_COLOR=never
cargo test --locked --lib --no-run

# Bits that are the same everywhere need to be compared with those of the training on one processor only: `--skip`. One
# after the other would take twice as long.
processors=(Nehalem:generic-u8i8i32 Haswell:x86_64-u8i8i32-avx2)
for pair in "${processors[@]}"; do
  processor=${pair%%:*}
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="qemu-x86_64 -cpu $processor" \
    cargo test --locked --lib detect::model::encoder -- --nocapture --skip its_training \
    >"$logs/$processor" 2>&1 &
done
wait

failed=0
for pair in "${processors[@]}"; do
  processor=${pair%%:*} kernel=${pair#*:}
  echo "== $processor"
  # What the emulator cannot do it says for each processor; none of it is about arithmetic.
  grep -v '^qemu-x86_64: warning: TCG' "$logs/$processor" || true
  grep -q '^test result: ok' "$logs/$processor" || failed=1
  # Otherwise it would have been this machine again.
  grep -q "multiplied by $kernel\$" "$logs/$processor" || { echo "error: it was not emulated"; failed=1; }
done
exit "$failed"
