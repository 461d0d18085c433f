//! `memfw` without a command.

use crate::support::{Guarded, NEVER, Test, Writer, eventually, poison};

#[test]
fn without_a_command_the_state_is_five_lines_and_names_the_next_step() {
  let version = env!("CARGO_PKG_VERSION");
  let fresh = Test::new().output();
  assert_eq!((fresh.status, fresh.stderr.as_str()), (0, ""), "{fresh:?}");
  let expected = format!(
    "memfw {version}: stopped\n  known       0 blocks in 0 files (not protected: the daemon is stopped)\n  \
     waiting     nothing\n  problems    memfw has not guarded anything yet\n  \
     next        memfw demo shows it, memfw service install guards your agent\n"
  );
  assert_eq!(fresh.stdout, expected);

  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  let quiet = guarded.ok(&[]);
  assert!(quiet.contains("  protected   1 block in 1 file\n"), "{quiet}");
  assert!(quiet.ends_with("  next        nothing; memfw --help lists the commands\n"), "{quiet}");
  Writer::Shell.add(&guarded.path("MEMORY.md"), poison(1).as_bytes());
  eventually("the poison waits", || guarded.waiting().len() == 1);
  let busy = guarded.ok(&[]);
  assert!(busy.contains("  waiting     1 for you\n"), "{busy}");
  assert!(busy.ends_with("  next        memfw review\n"), "{busy}");
  assert_eq!(busy.lines().count(), 5, "{busy}");
  guarded.stop();
  let stopped = guarded.ok(&[]);
  assert!(
    stopped.contains("  problems    the daemon is not running: nothing is guarded\n"),
    "{stopped}"
  );
  assert!(stopped.contains("  next        memfw service install, or memfw run"), "{stopped}");
}
