#!/usr/bin/env bash
# Measures a release against its targets and prints the rows as Markdown, for docs/benchmarks.md.
#
#   benches/table.sh [PROGRAM]
#
# PROGRAM is an older memfw: it is measured in the same run, just before the new one, for the column `before`.
# What is measured inside the library (the rules alone) has no older value. A first start over 10,000 notes needs
# 100 MB below the directory for temporary files; all takes about three minutes a program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

older=${1:-}
if [ -n "$older" ]; then older=$(realpath "$older"); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)

cargo bench --locked --no-run --bench exposure --bench detect >&2
if [ -n "$older" ]; then
  MEMFW_BENCH_PROGRAM=$older cargo bench --locked --bench exposure | tee "$work/before" >&2
fi
cargo bench --locked --bench exposure | tee "$work/now" >&2
cargo bench --locked --bench detect -- '256 KiB of notes/judge' --noplot | tee "$work/rules" >&2

# quantile FILE LINE NAME: the number after NAME in the first line that begins with LINE.
quantile() {
  awk -v line="$2" -v name="$3" 'index($0, line) == 1 {
    for (n = 1; n < NF; n++) if ($n == name) { print $(n + 1) " " $(n + 2); exit }
  }' "$work/$1"
}

# value FILE LINE: what stands after LINE.
value() {
  awk -v line="$2" 'index($0, line) == 1 { split(substr($0, length(line) + 1), word, " "); print word[1] " " word[2]; exit }' \
    "$work/$1"
}

# The middle one of three, in MB of a million bytes.
rules() {
  awk '$1 == "thrpt:" { gsub(/[][]/, ""); printf "%.1f MB/s\n", $4 * ($5 == "GiB/s" ? 1073.741824 : $5 == "MiB/s" ? 1.048576 : 0.001024); exit }' \
    "$work/rules"
}

row() {
  local what=$1 target=$2 before=$3 now=$4
  # A line that a benchmark no longer prints must not become an empty cell.
  if [ -z "$now" ] || [ -z "$before" ]; then echo "error: no figure for: $what" >&2; exit 1; fi
  if [ -n "$older" ]; then echo "| $what | $target | $before | $now |"; else echo "| $what | $target | $now |"; fi
}

# both COMMAND WHAT TARGET ARGUMENT...: a row with one figure for each program.
both() {
  local command=$1 what=$2 target=$3 before=- now
  shift 3
  if [ -n "$older" ]; then before=$("$command" before "$@"); fi
  now=$("$command" now "$@")
  row "$what" "$target" "$before" "$now"
}

echo "Load average at the start: $load"
echo
if [ -n "$older" ]; then
  printf '%s\n' '| what | target | before | now |' '|---|---|---|---|'
else
  printf '%s\n' '| what | target | now |' '|---|---|---|'
fi
both quantile 'a rule decides, note of 4 kB, median' '1.5 ms' 'close to removal, notes of 4 kB' p50
both quantile 'a rule decides, note of 4 kB, 99th percentile' '10 ms' 'close to removal, notes of 4 kB' p99
both quantile 'the encoder decides, median' '-' 'the others' p50
both quantile 'the encoder decides, 99th percentile' '20 ms' 'the others' p99
both value 'first start-up over 10,000 notes (40 MB)' '1500 ms' 'start, 10000 notes, first'
both value 'start-up over these notes, known' '150 ms' 'start, 10000 notes, known'
both value 'memory at rest' '25 MB' 'memory at rest'
row 'normaliser and rules, one core, clean memory text' '100 MB/s' - "$(rules)"
