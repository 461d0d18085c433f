//! The screen while it is shown: keys, a refresh once a second, and a review of the selected item.
//!
//! Invariant: whatever ends the screen, the terminal has its usual mode and its former content afterwards: a key, a
//! signal that would end the process, an error, a review, or a panic.
#![forbid(unsafe_code)]

use std::{
  convert::Infallible,
  io::{self, Write as _},
  panic,
  sync::{
    Once,
    atomic::{AtomicBool, Ordering},
  },
  time::Duration,
};

use ratatui_core::terminal::Terminal;

use super::{
  backend::{Sequences, draw, room},
  keys::{Key, keys},
  layout,
  refresh::Refresh,
  view::View,
};
use crate::{
  app::{context::Context, exit::Status},
  command::quarantine::{
    self, FilterArgs, QuarantineCommand, QuarantineShowArgs, ReviewArgs,
    review::{
      self,
      keyboard::{Keys, Raw, Waited, read},
    },
  },
  memory::BlockId,
  os::{Clock as _, SystemClock},
  terminal::{
    failure::{Failure, of_input},
    output::Out,
  },
};

/// How often the ledger is asked whether it has changed.
const EVERY: Duration = Duration::from_secs(1);
/// Switches to the other screen of the terminal, clears it, and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l";
/// Shows the cursor, and restores the former screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Whether the other screen is shown, for a panic.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Shows the screen until a person or a signal ends it.
pub(super) fn run(context: &Context) -> Result<Status, Failure> {
  let mut refresh = Refresh::new(context);
  let view = refresh.view()?;
  let mut live =
    Live { context, refresh, view, selected: None, note: None, is_stale: false, is_help: false };
  let mut keys = Keys::new().map_err(|error| of_input(&error))?;
  leave_on_panic();
  loop {
    match live.watch(&mut keys)? {
      Next::Quit => return Ok(Status::Yes),
      Next::Review(id) => {
        let args = ReviewArgs { items: vec![id.to_string()], filter: FilterArgs::default() };
        live.note = review::run(context, &args).err().as_ref().map(note);
      }
      Next::Show(id) => {
        let args = QuarantineShowArgs { items: vec![id.to_string()], json: false, parts: false };
        let shown = quarantine::run(context, QuarantineCommand::Show(args));
        live.note = shown.err().as_ref().map(note);
        if live.note.is_none() && !any_key(context, &mut keys)? {
          return Ok(Status::Yes);
        }
      }
    }
    live.show_now();
  }
}

/// The first line of a failure, without what a person could type elsewhere.
fn note(failure: &Failure) -> String {
  failure.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Waits for a key; `false` at the end of the input, or if a signal would end the process.
fn any_key(context: &Context, keys: &mut Keys) -> Result<bool, Failure> {
  context.out.line("any key: back to the screen")?;
  context.out.flush()?;
  let raw = Raw::enter().map_err(|error| of_input(&error))?;
  loop {
    match keys.wait_for(Some(&raw), None).map_err(|error| of_input(&error))? {
      Waited::Input => return Ok(!read().map_err(|error| of_input(&error))?.is_empty()),
      Waited::End => return Ok(false),
      Waited::Redraw | Waited::TimeOut => {}
    }
  }
}

/// What ends the screen.
enum Next {
  Quit,
  Review(BlockId),
  Show(BlockId),
}

/// The screen and its content.
struct Live<'c> {
  context: &'c Context,
  refresh: Refresh<'c>,
  view: View,
  /// The selected item, which stays selected when others come; the newest if there is none.
  selected: Option<BlockId>,
  /// A message in place of the keys, until a key is pressed.
  note: Option<String>,
  /// Whether the content could not be read again.
  is_stale: bool,
  is_help: bool,
}

impl Live<'_> {
  /// Shows the screen and reads keys.
  fn watch(&mut self, keyboard: &mut Keys) -> Result<Next, Failure> {
    let context = self.context;
    let raw = Raw::enter().map_err(|error| of_input(&error))?;
    let _screen = OtherScreen::enter(&context.out)?;
    let Ok(mut terminal) = Terminal::new(Sequences::default());
    let mut due = SystemClock.monotonic() + EVERY;
    loop {
      self.draw(&mut terminal)?;
      let patience = due.saturating_sub(SystemClock.monotonic());
      match keyboard.wait_for(Some(&raw), Some(patience)).map_err(|error| of_input(&error))? {
        Waited::End => return Ok(Next::Quit),
        Waited::Redraw => clear(&mut terminal),
        Waited::TimeOut => {}
        Waited::Input => {
          let bytes = read().map_err(|error| of_input(&error))?;
          if bytes.is_empty() {
            return Ok(Next::Quit);
          }
          for key in keys(&bytes) {
            // Keys after this one were pressed before a person saw what it does.
            if let Some(next) = self.press(key, &mut terminal) {
              return Ok(next);
            }
          }
        }
      }
      if SystemClock.monotonic() >= due {
        due = SystemClock.monotonic() + EVERY;
        self.renew();
      }
    }
  }

  fn draw(&self, terminal: &mut Terminal<Sequences>) -> Result<(), Failure> {
    let out = &self.context.out;
    let room = room();
    let rows = if self.is_help {
      layout::help(room)
    } else {
      layout::screen(&self.view, room, self.at(), self.note.as_deref())
    };
    let Ok(_) = terminal.draw(|frame| draw(frame, &rows, out.colour()));
    out.text(&terminal.backend_mut().take())?;
    out.flush()
  }

  fn press(&mut self, key: Key, terminal: &mut Terminal<Sequences>) -> Option<Next> {
    if key == Key::Quit && !self.is_help {
      return Some(Next::Quit);
    }
    self.note = None;
    if std::mem::take(&mut self.is_help) {
      return None;
    }
    let last = self.view.items.len().saturating_sub(1);
    match key {
      Key::Up => self.select(self.at().saturating_sub(1)),
      Key::Down => self.select((self.at() + 1).min(last)),
      Key::First => self.select(0),
      Key::Last => self.select(last),
      Key::Help => self.is_help = true,
      Key::Redraw => clear(terminal),
      Key::Review => {
        let item = self.view.items.get(self.at())?;
        let id = item.id.clone();
        self.selected = Some(id.clone());
        return Some(if item.is_loss { Next::Show(id) } else { Next::Review(id) });
      }
      Key::Quit | Key::Other => {}
    }
    None
  }

  /// The number of the selected item.
  fn at(&self) -> usize {
    let selected = self.selected.as_ref();
    selected.and_then(|id| self.view.items.iter().position(|item| item.id == *id)).unwrap_or(0)
  }

  fn select(&mut self, at: usize) {
    self.selected = self.view.items.get(at).map(|item| item.id.clone());
  }

  /// Reads the content again, if it may have changed.
  fn renew(&mut self) {
    let renewed = self.refresh.renewed();
    self.take(renewed);
  }

  /// Reads the content again.
  fn show_now(&mut self) {
    let view = self.refresh.view().map(Some);
    self.take(view);
  }

  /// While the content cannot be read, the former one is shown with a message.
  fn take(&mut self, renewed: Result<Option<View>, Failure>) {
    match renewed {
      Ok(Some(view)) => {
        if std::mem::take(&mut self.is_stale) {
          self.note = None;
        }
        self.replace(view);
      }
      Ok(None) => self.view.now = SystemClock.now(),
      Err(failure) => {
        self.is_stale = true;
        self.note = Some(note(&failure));
      }
    }
  }

  /// Shows another content. If the selected item no longer waits, the next older one is selected.
  fn replace(&mut self, view: View) {
    let at = self.at();
    self.view = view;
    let is_there = |id: &BlockId| self.view.items.iter().any(|item| item.id == *id);
    if self.selected.as_ref().is_some_and(|id| !is_there(id)) {
      self.select(at.min(self.view.items.len().saturating_sub(1)));
    }
  }
}

/// Everything is drawn again, on a screen that may show something else.
fn clear(terminal: &mut Terminal<Sequences>) {
  let Ok(()): Result<(), Infallible> = terminal.clear();
}

/// The other screen of the terminal, until this value is dropped.
struct OtherScreen<'o>(&'o Out);

impl<'o> OtherScreen<'o> {
  fn enter(out: &'o Out) -> Result<Self, Failure> {
    IS_SHOWN.store(true, Ordering::SeqCst);
    let screen = Self(out);
    out.text(ENTER)?;
    // A panic leaves the screen at once, and must not come before it.
    out.flush()?;
    Ok(screen)
  }
}

impl Drop for OtherScreen<'_> {
  fn drop(&mut self) {
    // A terminal that is gone has no screen to restore.
    if IS_SHOWN.swap(false, Ordering::SeqCst) {
      self.0.text(LEAVE).ok();
    }
    self.0.flush().ok();
  }
}

/// The message of a panic is written to the former screen, where it stays.
fn leave_on_panic() {
  static ONCE: Once = Once::new();
  ONCE.call_once(|| {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
      if IS_SHOWN.swap(false, Ordering::SeqCst) {
        let mut stdout = io::stdout();
        stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush()).ok();
      }
      before(info);
    }));
  });
}

#[cfg(test)]
mod tests {
  use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
  };

  use super::*;

  #[derive(Clone, Default)]
  struct Written(Rc<RefCell<Vec<u8>>>);

  impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
      self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
      Ok(())
    }
  }

  #[test]
  fn a_panic_restores_the_former_screen_once() {
    let written = Written::default();
    let out = Out::to(Box::new(written.clone()), false, 80);
    let watched = catch_unwind(AssertUnwindSafe(|| {
      let _screen = OtherScreen::enter(&out).unwrap();
      panic!("while the screen is shown");
    }));
    assert!(watched.is_err());
    assert_eq!(written.0.borrow().as_slice(), format!("{ENTER}{LEAVE}").as_bytes());
    assert!(!IS_SHOWN.load(Ordering::SeqCst));
  }
}
