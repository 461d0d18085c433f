# The habits of this repository. `just` lists them; each is also a line that can be typed by hand.

[private]
default:
  @just --list --unsorted

# Everything that has to be right before a commit
[group('check')]
check: fmt lint test doc

# The same as the build server
[group('check')]
ci:
  .ci/run

# Only the rules of the house, also while the crate does not compile
[group('check')]
tidy:
  mkdir -p target
  CARGO_MANIFEST_DIR="{{justfile_directory()}}" rustc --edition 2024 --test tests/tidy.rs -o target/tidy
  target/tidy

# The format of the source
[group('check')]
fmt:
  cargo fmt --check

# The lints of Cargo.toml and clippy.toml
[group('check')]
lint:
  cargo clippy --all-targets --locked -- -D warnings

# The code of other systems than Linux, checked here (docs/adr/0015)
[group('check')]
portable:
  .ci/run portable

# Licences, bans and sources of all dependencies
[group('check')]
deny:
  cargo deny check bans licenses sources

# All tests
[group('test')]
test *args:
  cargo test {{args}}

# The rules with their examples
[group('test')]
corpus:
  cargo test --lib detect::

# Which lines of detection its unit tests reach (needs `rustup component add llvm-tools`)
[group('test')]
coverage:
  #!/usr/bin/env bash
  set -euo pipefail
  mkdir -p target
  export CARGO_TARGET_DIR="$PWD/target/coverage" LLVM_PROFILE_FILE="$PWD/target/coverage/profiles/%m.profraw"
  RUSTFLAGS="-C instrument-coverage" cargo test --locked --lib detect:: 2>&1 | tee "$CARGO_TARGET_DIR.log"
  tools=$(echo "$(rustc --print sysroot)"/lib/rustlib/*/bin)
  test=$(grep -o 'coverage/debug/deps/memfw-[0-9a-f]*' "$CARGO_TARGET_DIR.log" | head -1)
  "$tools/llvm-profdata" merge -sparse target/coverage/profiles/*.profraw -o target/coverage/all.profdata
  "$tools/llvm-cov" report "target/$test" -instr-profile target/coverage/all.profdata src/detect

# The file protocol under simulation; a seed that fails is printed: `MEMFW_SIM_SEED=n just sim 1`
[group('test')]
sim n="1000000":
  MEMFW_SIM_SCHEDULES={{n}} cargo test --release --test integration sim:: -- --nocapture

# Trees laid out to trap memfw, one of them very large; mounts and locks on files need root
[group('test')]
hostile-tree files="100000":
  MEMFW_TREE_FILES={{files}} cargo test --release --test integration hostile_tree:: -- --nocapture

# Writers that take no lock, on real file systems (temp, tmpfs, overlay, xfs, btrfs; all but the first two need root)
[group('test')]
race ops="20000" on="temp,tmpfs,overlay,xfs,btrfs":
  MEMFW_RACE_OPS={{ops}} MEMFW_RACE_ON={{on}} cargo test --release --test integration race:: -- --nocapture

# OpenClaw's own safe writer, from npm, and node's way to write
[group('test')]
fs-safe ops="800":
  tests/node/prepare.sh target/node-writers
  MEMFW_NODE_WRITERS="$PWD/target/node-writers" MEMFW_RACE_OPS={{ops}} cargo test --release --test integration race::openclaw -- --nocapture

# Edits by the real OpenClaw, from npm (650 MB), while memfw guards with no idle time
[group('test')]
openclaw-edits edits="200":
  cargo build --release
  tests/openclaw/edits.sh target/release/memfw {{edits}}

# memfw's plugin inside the real OpenClaw: installed, refusing, killed, removed (five minutes)
[group('test')]
openclaw-plugin:
  cargo build --release
  tests/openclaw/plugin.sh target/release/memfw

# The memory flush, the index, a dropped file and notices, with the real OpenClaw (five minutes)
[group('test')]
openclaw-live parts="index,flush,retrust,notice":
  cargo build --release
  tests/openclaw/live.sh target/release/memfw {{parts}}

# Scenarios from a page, mail or file to the next session's prompt, with the real OpenClaw (five turns a minute)
[group('test')]
openclaw-scenarios file *args:
  cargo build --release
  tests/openclaw/scenarios.sh target/release/memfw {{file}} {{args}}

# All cases of the compatibility suite with the real OpenClaw, of today and of before its sessions were in SQLite, and
# then the scripts about the plugin (`openclaw-plugin`)
[group('test')]
openclaw suite="../shared/openclaw-compat":
  cargo build --release
  {{suite}}/run.sh --memfw target/release/memfw
  tests/openclaw/plugin.sh target/release/memfw

# The process dies at each of its failpoints, with each kind of writer at work
[group('test')]
crash rounds="10":
  MEMFW_CRASH_ROUNDS={{rounds}} cargo test --test integration crash:: -- --ignored --nocapture

# The nth open, read, write, cut or sync of a memory file or of the ledger fails, for the first n of each kind
[group('test')]
faults n="12":
  MEMFW_FAULTS={{n}} cargo test --test integration faults:: -- --include-ignored --nocapture

# The daemon stands still while it holds a lease, for longer than the kernel waits
[group('test')]
leases:
  cargo test --test integration leases:: -- --ignored --nocapture

# The power goes at random moments, on copies of an image of a file system; needs root
[group('test')]
powerloss snapshots="200":
  MEMFW_POWERLOSS_SNAPSHOTS={{snapshots}} cargo test --test integration powerloss:: -- --ignored --nocapture --test-threads 1

# The encoder on emulated processors: the same bits on each; needs qemu-user
[group('test')]
processors:
  tests/processors.sh

# The readers of transcripts on bytes that a fuzzer makes up; needs a C++ compiler
[group('test')]
fuzz seconds="60" *targets:
  fuzz/run.sh {{seconds}} {{targets}}

# Looks at changed snapshots and accepts them one by one
[group('test')]
snap:
  cargo insta test --review

# Benchmarks; a name runs only one of attribution, parse, detect, exposure
[group('test')]
bench name="":
  cargo bench {{ if name == "" { "--benches" } else { "--bench " + name } }}

# The targets of speed and memory as a table, against an older program where one is named
[group('test')]
bench-table *program:
  benches/table.sh {{program}}

# What a user sees first
[group('doc')]
demo:
  cargo run --release -- demo

# Documentation, private items included
[group('doc')]
doc:
  RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --locked

# The Debian package, installed, run and removed in an empty root (needs cargo-deb)
[group('release')]
deb:
  packaging/deb.sh --check

# A static program with its documents and checksums, made twice and compared
[group('release')]
release:
  packaging/release.sh --twice

# All archives, packages, images and recipes of a release, each tried in an empty root as far as the tools are here
[group('release')]
packages out="target/dist":
  packaging/all.sh --check {{out}}
