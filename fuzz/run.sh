#!/usr/bin/env bash
# Fuzzes the readers of transcripts on the stable toolchain.
#
#   fuzz/run.sh [SECONDS [TARGET...]]     SECONDS for each target, 60 unless told; with 0 they are only built
#
# Ends with 77 where the targets cannot be built (no C++ compiler, no sanitizer, no network). What a target
# dislikes lies in fuzz/target/artifacts afterwards; what it learnt lies in fuzz/target/corpus for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

seconds=${1:-60}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then targets=(transcript_event transcript_jsonl transcript_sqlite); fi
host=$(rustc -vV | sed -n 's/^host: //p')

# What `cargo fuzz` would set; a target is named so that build scripts stay as they are. The targets use little of
# memfw and of what it stands on: the last flag leaves out the rest.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="${MEMFW_FUZZ_TARGET_DIR:-$PWD/target}"
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
-Zhint-mostly-unused"
if ! cargo build --release --target "$host" >&2; then
  # A target that does not fit the code is a mistake; that there is no sanitizer, compiler or network is none.
  if cargo fetch >&2 && ! RUSTFLAGS="--cfg fuzzing" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/check" cargo check >&2; then
    echo "the fuzz targets do not compile" >&2
    exit 1
  fi
  echo "the fuzz targets cannot be built here" >&2
  exit 77
fi

if [ "$seconds" -eq 0 ]; then exit; fi

# SQLite has a static of the same name twice.
export ASAN_OPTIONS=detect_odr_violation=0:detect_leaks=0

seed() {
  local corpus=$CARGO_TARGET_DIR/corpus/$1 real=../fixtures/openclaw
  mkdir -p "$corpus" "$CARGO_TARGET_DIR/artifacts"
  case $1 in
    transcript_event)
      cat "$real"/2026.7.1-2/agents/main/sessions/*.jsonl | split -l 1 - "$corpus/seed-"
      ;;
    transcript_jsonl)
      for file in "$real"/2026.7.1-2/agents/main/sessions/*-*.jsonl; do
        { head -n 12 "$file"; printf '\0'; cat "$real"/2026.7.1-2/agents/main/sessions/sessions.json; } \
          >"$corpus/seed-$(basename "$file")"
      done
      ;;
    transcript_sqlite)
      { printf '\0'; cat "$real"/2026.9.6/agents/main/agent/openclaw-agent.sqlite; } >"$corpus/seed-whole"
      printf '\1\0\0\144\4abcd' >"$corpus/seed-change"
      ;;
  esac
}

for target in "${targets[@]}"; do
  seed "$target"
  echo "-- $target, $seconds s"
  # One allocation over 64 MB, or 1 GB in all (the sanitizer's own included), is a failure.
  log=$CARGO_TARGET_DIR/artifacts/$target.log
  if ! "$CARGO_TARGET_DIR/$host/release/$target" "$CARGO_TARGET_DIR/corpus/$target" \
    -max_total_time="$seconds" -max_len=400000 -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=64 \
    -artifact_prefix="$CARGO_TARGET_DIR/artifacts/$target-" -print_final_stats=1 >"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
  fi
  tail -n 6 "$log"
done
