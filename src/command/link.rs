//! `memfw link`: a child process of a plugin inside the agent, which asks before a write and before a read
//! (docs/link.md).
//!
//! It reads requests from standard input, answers one after the other, and ends with it. It runs no other program, and
//! changes a memory file only where the owner decides about an item in a chat. If it cannot judge in time, the call goes
//! on, and the daemon judges after the write. What it writes to the ledger about a call, it writes after the answer
//! (`recorder`).
#![forbid(unsafe_code)]

mod asked;
mod chat;
mod input;
mod news;
mod own;
pub(super) mod reads;
mod reason;
mod recorder;
mod runs;
mod world;

use std::{
  cell::{Cell, OnceCell, RefCell},
  sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
  },
  time::Duration,
};

use clap::Args as ClapArgs;

use asked::Asked;
use chat::Chats;
use input::chunks;
use own::OwnFiles;
use reads::Reads;
use reason::reason_of;
use recorder::{Entry, Recorder, Sealed};
use runs::{Amount, Keeping, Runs, run_of};
use world::World;

use crate::{
  app::{
    agent::call::{Places, attribution},
    context::Context,
    exit::Status,
  },
  config::{Config, LinkWrites},
  engine::{Engine, EngineError, Event, EventKind, Foreseen, Target},
  files::RealFs,
  link::{
    Ask, Call, Change, Decision, Outcome, Question, Reply, Session,
    change::new_lines,
    message::{Answer, Fault},
    outcome::lossy,
  },
  memory::{BlockId, ContentHash},
  os::{Clock as _, LinkLock, SystemClock},
  provenance::{Attribution, Source},
  terminal::{failure::Failure, lines::Line},
};

/// A refusal that is ready this shortly before its deadline may reach the plugin too late (a choice); of a short
/// wait it is a tenth.
const MARGIN: Duration = Duration::from_millis(5);
/// The time before which refused texts count as those of another day, in microseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// `memfw link`
///
/// Answers the plugin of an agent: one JSON request a line on standard input, one reply a line on standard
/// output. A plugin starts it; people have no use for it.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: echo '{\"id\":1,\"type\":\"hello\",\"version\":1}' | memfw link")]
pub struct LinkArgs {}

/// Carries the command out.
pub fn run(context: &Context, _args: &LinkArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  context.start_log(&config)?;
  let mut session = Session::new(env!("CARGO_PKG_VERSION"), config.link_writes.as_str());
  // What comes while the model is loaded waits already.
  let input = chunks()?;
  let recorder = Recorder::start(context, &config)?;
  let mut judge = CallJudge::new(context, config);
  let mut chats = Chats::new(context);
  let _alive = context.home().ok().and_then(|home| LinkLock::acquire(&home.data));
  judge.warm_up();
  let mut talk = || {
    for chunk in &input {
      let (came, lines) = chunk?;
      for line in &lines {
        let verdict = match line {
          Line::TooLong => Session::too_long().into(),
          Line::Whole(bytes) => match session.read(bytes.trim_ascii_end()) {
            Ok(ask) => match chats.take(ask, came) {
              Ok(None) => continue,
              Ok(Some(reply)) => reply.into(),
              Err(ask) => judge.answer(&ask, came),
            },
            Err(reply) => reply.into(),
          },
        };
        judge.tell(verdict, &chats, &recorder)?;
      }
    }
    Ok(Status::Yes)
  };
  let ended = talk();
  recorder.finish();
  ended
}

/// A reply, and what follows from it.
struct Verdict {
  reply: Reply,
  /// The write that it stops.
  stopped: Option<Stopped>,
  /// What is recorded in any case.
  event: Option<Event>,
}

impl From<Reply> for Verdict {
  fn from(reply: Reply) -> Self {
    Self { reply, stopped: None, event: None }
  }
}

/// A poisoned write that does not happen if the reply comes in time.
struct Stopped {
  /// The id of the request.
  check: u64,
  target: Target,
  foreseen: Foreseen,
  run: String,
  text: ContentHash,
  /// What is done with the text; `None` where the owner is asked at once.
  keeping: Option<Keeping>,
  ids: Vec<BlockId>,
  came: Duration,
  /// When the plugin stops waiting.
  until: Duration,
}

/// What judges a call before it writes.
struct CallJudge<'c> {
  context: &'c Context,
  config: Config,
  /// The guarded directories, or why there are none.
  places: Result<Arc<Places>, String>,
  /// The engine on a ledger that is only read; opened again after a failure.
  engine: Option<Engine<RealFs>>,
  reads: Reads,
  own: OwnFiles,
  runs: Runs,
  asked: Asked,
  /// When the plugin stops waiting for the current verdict, in microseconds on the monotonic clock.
  until: Arc<AtomicU64>,
}

impl<'c> CallJudge<'c> {
  fn new(context: &'c Context, config: Config) -> Self {
    let found = context.discover(&config, &[]);
    let env = &context.surroundings.env;
    let places = found.map(|found| Places::new(env, &config, found.workspaces, found.shapes));
    let places = places.map(Arc::new).map_err(|failure| failure.error);
    let roots = places.as_ref().map_or(&[][..], |places: &Arc<Places>| &places.roots);
    let own = OwnFiles::of(context, &config, roots);
    Self {
      context,
      config,
      places,
      engine: None,
      reads: Reads::default(),
      own,
      runs: Runs::default(),
      asked: Asked::default(),
      until: Arc::new(AtomicU64::new(u64::MAX)),
    }
  }

  /// Loads what the first judgement needs, so that the first call does not wait for it.
  fn warm_up(&mut self) {
    let Some(root) = self.places.as_ref().ok().and_then(|places| places.roots.first()) else {
      return;
    };
    let target = Target::new(root, "MEMORY.md".as_ref());
    let nobody = Attribution::without_evidence(Source::unknown());
    let text = "- The office is on the second floor.\n".to_owned();
    let warm =
      self.engine().and_then(|engine| Ok(engine.foresee(&target, (b"", text.into()), &nobody)?));
    if warm.is_err() {
      // A call finds out why.
      self.engine = None;
    }
    let now = SystemClock.now();
    let kept = self.engine.as_ref().map(|engine| engine.attempts_since(now.saturating_sub(DAY)));
    let (texts, bytes) = kept.and_then(Result::ok).unwrap_or_default();
    self.runs.begin(Amount { texts, bytes }, SystemClock.monotonic());
  }

  fn engine(&mut self) -> Result<&mut Engine<RealFs>, Failure> {
    if self.engine.is_none() {
      let ledger = self.context.ledger_with_key()?;
      let mut engine = self.context.engine_on(ledger, &self.config)?;
      engine.judge().set_rules(self.context.rules()?);
      let until = Arc::clone(&self.until);
      engine.judge().set_interrupt(Arc::new(move || micros() >= until.load(SeqCst)));
      engine.judge().slice_all();
      self.engine = Some(engine);
    }
    self.engine.as_mut().ok_or_else(|| Failure::unavailable("the ledger is closed"))
  }

  /// The mode that is configured now.
  fn mode(&self) -> LinkWrites {
    self.context.config().map_or(self.config.link_writes, |now| now.config.link_writes)
  }

  fn answer(&mut self, ask: &Ask, came: Duration) -> Verdict {
    self.until.store(as_micros(ask.until(came)), SeqCst);
    let answered = match &ask.what {
      Question::Check(call) => self.judge(ask, call, came),
      Question::Recall(_) if ask.is_late(came) => Ok(late(ask.id).into()),
      Question::Recall(recall) => self
        .recall(ask.id, recall)
        .map(|reply| if ask.is_late(came) { late(ask.id) } else { reply }.into()),
      Question::Inject(inject) => Ok(self.inject(ask.id, inject).into()),
      Question::Resolved(resolved) => {
        let event = self.asked.end(*resolved);
        let body = Answer::Noted { known: event.is_some() };
        Ok(Verdict { reply: Reply { id: Some(ask.id), body }, stopped: None, event })
      }
      Question::Chat(_) | Question::News => {
        Ok(Reply::failed(Some(ask.id), Fault::Unavailable, "this is no chat").into())
      }
    };
    self.until.store(u64::MAX, SeqCst);
    answered.unwrap_or_else(|failure| {
      self.engine = None;
      Reply::failed(Some(ask.id), Fault::Unavailable, failure.error).into()
    })
  }

  /// Gives the plugin the reply, and then has recorded what follows from it.
  fn tell(&mut self, verdict: Verdict, chats: &Chats, recorder: &Recorder) -> Result<(), Failure> {
    let Verdict { mut reply, stopped, event } = verdict;
    let mut is_in_time = true;
    if let Some(one) = &stopped {
      let margin = MARGIN.min(one.until.saturating_sub(one.came) / 10);
      is_in_time = SystemClock.monotonic() + margin < one.until;
      if !is_in_time && let Some(id) = reply.id {
        reply = late(id);
      }
    }
    chats.say(&self.context.out, &reply)?;
    if let Some(one) = stopped {
      let is_refused = is_in_time && SystemClock.monotonic() < one.until;
      if let Some(entry) = self.entry(one, is_refused) {
        recorder.take(entry);
      }
    }
    if let Some(event) = event {
      recorder.take(Entry::Told(event));
    }
    let reads = self.take_reads();
    if !reads.is_empty() {
      recorder.take(Entry::Reads(reads));
    }
    Ok(())
  }

  /// What is recorded of a poisoned write: that it was refused, or that the plugin has let it through.
  fn entry(&mut self, stopped: Stopped, is_refused: bool) -> Option<Entry> {
    let Stopped { check, target, foreseen, run, text, keeping, ids, came, .. } = stopped;
    let path = target.path();
    if !is_refused {
      let event = foreseen.event(EventKind::LetThrough, &path);
      let why = "the verdict came too late, so the daemon judges the file after the write";
      return self.runs.passed(&run, text).then(|| Entry::Told(event.detail(why)));
    }
    let Some(keeping) = keeping else {
      return Some(Entry::Told(self.asked.begin(check, &foreseen, &path)));
    };
    self.runs.refused(&run);
    match keeping {
      Keeping::New => {
        let is_lost = self.runs.kept(&run, text, ids.clone(), foreseen.n_bytes());
        let took_ms = SystemClock.monotonic().saturating_sub(came).as_secs_f64() * 1e3;
        Some(Entry::Sealed(Box::new(Sealed { target, foreseen, ids, took_ms, is_lost })))
      }
      Keeping::Again(ids) => Some(Entry::Again(ids)),
      Keeping::NotKept => self.runs.not_kept(&run).map(|n| {
        let event = foreseen.event(EventKind::NotKept, &path).count(n as usize);
        Entry::Told(event.detail("more was refused than is kept of a run or a day"))
      }),
    }
  }

  fn judge(&mut self, ask: &Ask, call: &Call, came: Duration) -> Result<Verdict, Failure> {
    let id = ask.id;
    let is_late = || ask.is_late(came);
    let unjudged = |note: &str| Ok(Reply::allowed(id, false, Some(note.to_owned())).into());
    if self.own.has(call, &is_late) {
      return Ok(own::refusal(id).into());
    }
    let mode = self.mode();
    let places = match &self.places {
      Ok(places) => Arc::clone(places),
      Err(why) => return Ok(Reply::failed(Some(id), Fault::Unavailable, why.as_str()).into()),
    };
    let named = call.change.as_ref().map(Change::names).unwrap_or_default();
    let is_memory = |named: &str| places.memory_file(call, named).is_some();
    if !is_memory(&call.path) && !named.into_iter().any(|named| is_late() || is_memory(named)) {
      return unjudged("this is no memory file that memfw guards");
    }
    if mode == LinkWrites::Quarantine {
      return unjudged("`link.writes` is `quarantine`: the text is judged after the write");
    }
    let change = match &call.change {
      Some(Change::Command(_)) | None => {
        return unjudged("what a command writes is judged after the write");
      }
      Some(change) if !change.is_judged() => return unjudged(TOO_LONG),
      Some(change) => change,
    };
    // The plugin does not wait any more, and others do.
    if is_late() {
      return Ok(late(id).into());
    }
    let config = self.config.clone();
    let engine = self.engine()?;
    let world = World {
      call,
      places: &places,
      engine: RefCell::new(engine),
      is_late: &is_late,
      failed: OnceCell::new(),
      is_long: Cell::new(false),
    };
    let outcomes = change.outcomes(&call.path, &world);
    if is_late() {
      return Ok(late(id).into());
    }
    if let Some(error) = world.failed.into_inner() {
      return Err(error.into());
    }
    if world.is_long.get() {
      return unjudged(TOO_LONG);
    }
    let engine = world.engine.into_inner();
    let mut poisoned = None;
    'files: for Outcome { file, versions } in outcomes {
      let Some((root, rel)) = places.memory(&file) else { continue };
      let target = Target::new(&root, &rel);
      // What cannot be read is no reason to let a text through.
      let before = engine.current(&target)?.unwrap_or_default();
      for version in versions {
        let after = version.over(&before);
        let text = new_lines(&lossy(&before), &lossy(&after));
        let from = attribution(call, (&root, &rel), &text, &config, SystemClock.now());
        if is_late() {
          return Ok(late(id).into());
        }
        let foreseen = match engine.foresee(&target, (&before, after), &from) {
          Err(EngineError::Preempted) => return Ok(late(id).into()),
          foreseen => foreseen?,
        };
        if !foreseen.is_clean() {
          poisoned = Some((target, foreseen));
          break 'files;
        }
      }
    }
    let Some((target, foreseen)) = poisoned else {
      let reply = if is_late() { late(id) } else { Reply::allowed(id, true, None) };
      return Ok(reply.into());
    };
    let run = run_of(call).to_owned();
    let text = foreseen.hash(&target.path());
    // Where the owner decides at once, nothing waits.
    let keeping = (mode != LinkWrites::Ask)
      .then(|| self.runs.keeping(&run, text, foreseen.n_bytes(), SystemClock.monotonic()));
    let ids = match &keeping {
      Some(Keeping::New) => self.engine()?.names(&target, &foreseen)?,
      Some(Keeping::Again(ids)) => ids.clone(),
      Some(Keeping::NotKept) | None => vec![],
    };
    let is_told = mode == LinkWrites::Ask || self.runs.is_told(&run);
    let reason = reason_of(&target.rel.to_string_lossy(), &foreseen, &ids, is_told);
    let decision = if mode == LinkWrites::Ask { Decision::Ask } else { Decision::Refuse };
    let until = ask.until(came);
    Ok(Verdict {
      reply: Reply::stopped(id, decision, reason),
      stopped: Some(Stopped { check: id, target, foreseen, run, text, keeping, ids, came, until }),
      event: None,
    })
  }
}

/// Why a text is not judged before the write.
const TOO_LONG: &str = "this is too long to be judged before the write, and is judged after it";

/// The monotonic time in microseconds.
fn micros() -> u64 {
  as_micros(SystemClock.monotonic())
}

fn as_micros(time: Duration) -> u64 {
  u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Ask {
  /// When the plugin stops waiting for the reply to a request that came then.
  fn until(&self, came: Duration) -> Duration {
    came + Duration::from_millis(self.deadline_ms.into())
  }

  /// Whether it no longer waits.
  fn is_late(&self, came: Duration) -> bool {
    SystemClock.monotonic() >= self.until(came)
  }
}

fn late(id: u64) -> Reply {
  Reply::failed(Some(id), Fault::Deadline, "the reply came too late")
}
