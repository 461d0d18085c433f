//! What is broken on purpose, so that the oracle has something to find: a simulation that finds nothing
//! proves nothing. Each invariant of the file protocol has at least one.
#![forbid(unsafe_code)]

use std::rc::Rc;

use super::{
  schedule::run,
  stage::Stage,
  twist::{Kind, Twists},
};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
  /// Nothing.
  None,
  /// Leases are granted to everybody and keep nobody out, and every comparison with what was read
  /// finds it unchanged.
  BlindComparison,
  /// No commit is waited for, as with `synchronous=OFF`, and only a power loss can show it.
  ForgetfulLedger,
  /// No commit is waited for, which shows at once.
  HastyLedger,
  /// No `fsync` of a memory file does anything.
  IdleSync,
  /// A start ends nothing that a kill or a power loss interrupted.
  NoRecovery,
  /// The window between comparison and write of a redaction without a lease, which is atomic
  /// otherwise, is open to writers. It is the documented remainder of the protocol.
  OpenGap,
  /// Items do not have the number any more under which they would be known again.
  Renumbered,
  /// Every lease looks as if it had just been granted.
  YoungLease,
  /// The engine stalls between its last look at the clock and a write. It is the documented remainder
  /// of the protocol.
  LateWrite,
  /// Whatever is opened looks like a file that may be written.
  BlindOpen,
  /// An agent's record is never seen, so nothing is held off for its verifying read.
  NoRecords,
  /// File times look as if they were fine where they advance by seconds.
  FineTimes,
  /// A call that changes a file and fails looks as if it had succeeded.
  DeafToErrors,
  /// A start ends nothing that was interrupted within a write.
  NoTearRecovery,
  /// A ledger that was moved or replaced looks as if it were in its place.
  BlindToPlace,
  /// A start without the workspace drops what was interrupted in it.
  DropsJournal,
  /// Nothing that is written is reported.
  DeafToWrites,
  /// A file that is not fully guarded is not checked again by itself.
  NoPoll,
  /// The engine waits many times as long as it means to.
  LongPauses,
  /// The daemon's passes take nothing out, as if something were always in the way.
  IdlePasses,
}

/// Enough for each control to fail many times: a sync that does nothing, which is among the rarest because the next
/// start does most of what it lost once more, does so in one of 180.
const CONTROLS: u64 = 12_000;

/// Schedules go on until what is broken is found out; with `MEMFW_SIM_TRACE` to the end, to count.
fn must_fail(control: Control, with: &str) {
  must_fail_as(Kind::Plain, control, with);
}

/// The same with schedules that have what the control is about.
fn must_fail_as(kind: Kind, control: Control, with: &str) {
  let stage = Rc::new(Stage::new());
  let mut found_out = (0..CONTROLS).filter(|&seed| {
    let found = run((seed, kind), control, &stage, false).err().unwrap_or_default();
    found.iter().any(|line| line.starts_with(with))
  });
  let found = if super::traced() {
    let n = found_out.count();
    println!("{control:?}: {n} of {CONTROLS} schedules say {with}");
    n > 0
  } else {
    found_out.next().is_some()
  };
  assert!(found, "{control:?}: nothing like {with:?} in {CONTROLS} schedules");
}

#[test]
fn i1_a_comparison_that_sees_nothing_is_found_out() {
  must_fail(Control::BlindComparison, "I1");
}

#[test]
fn i1_a_ledger_that_forgets_is_found_out() {
  let twists = Twists { power: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::ForgetfulLedger, "I1");
}

#[test]
fn i1_a_sync_of_files_that_does_nothing_is_found_out_by_a_power_loss() {
  let twists = Twists { power: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::IdleSync, "I1");
}

#[test]
fn i1_a_start_that_ends_nothing_is_found_out() {
  let twists = Twists { tears: true, power: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::NoRecovery, "I1");
}

#[test]
fn i2_a_ledger_that_does_not_wait_for_the_disk_is_found_out() {
  must_fail(Control::HastyLedger, "I2");
}

#[test]
fn i3_a_writer_between_comparison_and_write_is_found_out() {
  must_fail(Control::OpenGap, "I3");
}

#[test]
fn i4_items_that_are_not_known_again_are_found_out() {
  must_fail(Control::Renumbered, "I4");
}

#[test]
fn i5_a_write_under_an_old_lease_is_found_out() {
  must_fail(Control::YoungLease, "I5");
}

#[test]
fn i5_a_stall_directly_before_a_write_is_found_out() {
  must_fail(Control::LateWrite, "I");
}

#[test]
fn i6_a_write_to_a_linked_or_foreign_file_is_found_out() {
  must_fail(Control::BlindOpen, "I6");
}

#[test]
fn a_redaction_before_the_verifying_read_is_found_out() {
  must_fail(Control::NoRecords, "P4");
}

#[test]
fn a_change_within_one_step_of_the_file_times_that_counts_as_seen_is_found_out() {
  let twists = Twists { step_ns: Some(2_000_000_000), ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::FineTimes, "P2");
}

#[test]
fn a_failure_that_counts_as_a_success_is_found_out() {
  let twists = Twists { faults: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::DeafToErrors, "I1");
}

#[test]
fn a_torn_write_that_no_start_ends_is_found_out() {
  let twists = Twists { tears: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::NoTearRecovery, "I1");
}

#[test]
fn a_redaction_into_a_ledger_that_is_away_is_found_out() {
  let twists = Twists { ledger: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::BlindToPlace, "L1");
}

#[test]
fn a_journal_that_is_dropped_without_the_workspace_is_found_out() {
  let twists = Twists { roots: true, tears: true, power: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::DropsJournal, "I1");
}

#[test]
fn a_daemon_that_hears_of_no_write_is_found_out() {
  let twists = Twists { events: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::DeafToWrites, "by events alone: P2");
}

#[test]
fn a_daemon_that_waits_for_events_that_never_come_is_found_out() {
  let twists = Twists { events: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::NoPoll, "by events alone: P2");
}

#[test]
fn a_call_that_takes_too_long_is_found_out() {
  must_fail_as(Kind::With(Twists::default()), Control::LongPauses, "L3");
}

#[test]
fn poison_that_no_pass_takes_out_is_found_out() {
  let twists = Twists { events: true, ..Twists::default() };
  must_fail_as(Kind::With(twists), Control::IdlePasses, "L2");
}
