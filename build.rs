//! Names what this build stands on: `cfg(linux)` is the kernel's leases, inotify, `openat2` and fanotify.
//!
//! `MEMFW_PORTABLE=1` and the feature `notify`, or `RUSTFLAGS='--cfg memfw_portable'`, leave it out on Linux, too, so
//! that the code of all other systems is compiled where there is none of them (docs/adr/0015).
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "this is how cargo talks to a build script")]

use std::env;

fn main() {
  println!("cargo::rerun-if-changed=build.rs");
  println!("cargo::rerun-if-env-changed=MEMFW_PORTABLE");
  println!("cargo::rustc-check-cfg=cfg(linux)");
  let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
  let is_portable = ["CARGO_CFG_MEMFW_PORTABLE", "MEMFW_PORTABLE"].map(env::var_os);
  if is_linux && is_portable.iter().all(Option::is_none) {
    println!("cargo::rustc-cfg=linux");
  }
}
