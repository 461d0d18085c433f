//! The priority of threads.
#![forbid(unsafe_code)]

/// Work that can wait gets little of the processor: at this niceness a tenth of the share of a
/// thread that does not wait.
#[cfg(linux)]
const NICE: i32 = 10;

/// Lowers the priority of the calling thread, and of threads that it starts. Does nothing if that
/// is not possible.
pub fn yield_to_others() {
  // On Linux a priority belongs to a thread, named like a process.
  #[cfg(linux)]
  {
    use rustix::process::{getpriority_process, setpriority_process};
    let this = Some(rustix::thread::gettid());
    // The priority may already be lower, and is never raised.
    if getpriority_process(this).is_ok_and(|nice| nice < NICE) {
      setpriority_process(this, NICE).ok();
    }
  }
}

#[cfg(all(test, linux))]
mod tests {
  use super::*;

  #[test]
  fn only_this_thread_gives_way() {
    let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
    let before = nice();
    let there = std::thread::spawn(move || {
      yield_to_others();
      nice()
    });
    assert!(there.join().unwrap() >= NICE.max(before));
    assert_eq!(nice(), before);
  }
}
