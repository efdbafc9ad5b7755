//! Boundaries that go straight in. What a task has in the store is its owner's alone until somebody else writes it, and whoever
//! does breaks the owner's seal in the same step (`executor:seal:<instance>`, which is removed). An instance watches its seal
//! on connections that serve nothing else: while it is whole, tasks are as they were left, and their boundaries are written by
//! plain commands, all of a call or none. To look at each of them in a script takes the server nearly twice as long. Under a
//! broken seal nothing is written, and a script looks.
//!
//! A call without an answer may still be carried out later. Whoever repeats its steps knows nothing of their tasks any more,
//! so a script writes them; that breaks the seal, and what is late comes to nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_core::id::InstanceId;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::Inner;
use crate::error::{corrupt, port};
use crate::reply::parts;
use crate::wire::{Part, Wire, push_command};

/// Connections, each with one call on its way: one is carried out while another is written and read.
const LINES: usize = 2;
/// Boundaries of one call.
const ITEMS: usize = 256;
/// After connections were lost or could not be made.
const PAUSE: Duration = Duration::from_secs(1);

/// A seal: no two that one process has made are the same, and a later one is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seal(u64);

/// A boundary as commands, for a task that was as it is known when this seal was whole.
pub(super) struct Boundary {
    seal: Seal,
    commands: Vec<u8>,
    count: usize,
    /// Key and text of its checkpoint: those of a call are one command.
    checkpoint: Vec<u8>,
}

impl Boundary {
    pub(super) fn new(seal: Seal) -> Boundary {
        Boundary { seal, commands: Vec::new(), count: 0, checkpoint: Vec::new() }
    }

    pub(super) fn command<'w>(&mut self, words: impl ExactSizeIterator<Item = &'w str>) {
        push_command(&mut self.commands, words.len(), words);
        self.count += 1;
    }

    pub(super) fn checkpoint(&mut self, key: &str, text: &str) {
        [key, text].iter().for_each(|word| crate::wire::push_word(&mut self.checkpoint, word));
    }
}

/// Whether it was written; if not, nothing of it was.
type Answer = Result<bool, PortError>;
type Waiting = (Boundary, oneshot::Sender<Answer>);

#[derive(Default)]
pub(crate) struct Straight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The instance whose boundaries go this way: the first that had one.
    whose: Option<InstanceId>,
    /// Which connections are in use: those that were made before are given up.
    lines: u64,
    opens: bool,
    not_before: Option<Instant>,
    /// The last seal that was made.
    made: u64,
    /// The newest that was seen whole.
    seal: Option<Seal>,
    /// The server's clock, and when it was read.
    clock: Option<(Ms, Instant)>,
    idle: Vec<Line>,
    waiting: Vec<Waiting>,
}

/// A connection that watches the seal.
struct Line {
    wire: Wire,
    lines: u64,
    key: String,
    seal: Seal,
}

impl Straight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance's seal, if there is one, and the time by the server's clock.
    pub(super) fn sealed(&self, instance: &InstanceId) -> Option<(Seal, Ms)> {
        let state = self.state();
        let (seal, (at, read)) = state.seal.zip(state.clock)?;
        let passed = u64::try_from(read.elapsed().as_millis()).unwrap_or(u64::MAX);
        (state.whose.as_ref() == Some(instance)).then_some((seal, at.plus(passed)))
    }

    /// The instance's lease was given up: its connections are too.
    pub(super) fn ended(&self, instance: &InstanceId) {
        let mut state = self.state();
        if state.whose.as_ref() == Some(instance) {
            state.give_up();
        }
    }

    /// Lets go of the connections.
    pub(crate) fn close(&self) {
        self.state().give_up();
    }

    fn seal(&self) -> Option<Seal> {
        self.state().seal
    }

    fn make(&self) -> Seal {
        let mut state = self.state();
        state.made += 1;
        Seal(state.made)
    }

    fn saw(&self, seal: Seal, at: Ms) {
        let mut state = self.state();
        state.made = state.made.max(seal.0);
        // Of two that are on their way the later may be answered first.
        state.seal = state.seal.max(Some(seal));
        state.clock = Some((at, Instant::now()));
    }

    /// These connections are of no more use.
    fn lost(&self, lines: u64) {
        let mut state = self.state();
        if state.lines == lines {
            state.fail();
        }
    }

    /// What is to be sent next. A line that has nothing to do, or is not in use any more, is kept or let go of.
    fn next(&self, line: Line) -> Option<(Line, Vec<Waiting>)> {
        let mut state = self.state();
        if line.lines != state.lines || state.whose.is_none() {
            return None;
        }
        let n = state.waiting.len().min(ITEMS);
        if n == 0 {
            state.idle.push(line);
            return None;
        }
        Some((line, state.waiting.drain(..n).collect()))
    }
}

impl State {
    fn give_up(&mut self) {
        (self.whose, self.seal, self.clock) = (None, None, None);
        self.idle.clear();
        tell(self.waiting.drain(..), &Ok(false));
    }

    fn fail(&mut self) {
        self.give_up();
        self.not_before = Some(Instant::now() + PAUSE);
    }
}

fn tell(all: impl IntoIterator<Item = Waiting>, answer: &Answer) {
    all.into_iter().for_each(|(_, tell)| drop(tell.send(answer.clone())));
}

/// Sees to connections for an instance, if there are none for anybody. Nobody waits for them: without, everything goes the
/// other way.
pub(super) fn prepare(inner: &Arc<Inner>, instance: &InstanceId) {
    let mut state = inner.straight.state();
    let waits = state.not_before.is_some_and(|until| Instant::now() < until);
    if state.whose.is_none() && !state.opens && !waits {
        state.opens = true;
        tokio::spawn(open(Arc::clone(inner), instance.clone()));
    }
}

async fn open(inner: Arc<Inner>, instance: InstanceId) {
    let lines = inner.straight.state().lines + 1;
    let made = connected(&inner, &instance, lines).await;
    let mut state = inner.straight.state();
    state.opens = false;
    match made {
        Ok(idle) => (state.whose, state.lines, state.idle) = (Some(instance), lines, idle),
        Err(error) => {
            state.fail();
            tracing::debug!(%error, "no connections for boundaries; they go through scripts");
        }
    }
}

async fn connected(inner: &Inner, instance: &InstanceId, lines: u64) -> Result<Vec<Line>, PortError> {
    let mut all = Vec::with_capacity(LINES);
    for nth in 0..LINES {
        let (wire, key) = (inner.link.another().await?, inner.keys.of("seal", instance.as_str()));
        // Without them everything would be carried out at once.
        let mut bytes = Vec::new();
        ["MULTI", "EXEC"].iter().for_each(|word| push_command(&mut bytes, 1, [*word]));
        let answers = inner.link.on(&wire, bytes, 2).await?.values().map_err(|error| port(&error))?;
        answers.into_iter().try_for_each(|answer| answer.extract_error().map(drop)).map_err(|error| port(&error))?;
        let mut line = Line { wire, lines, key, seal: Seal(0) };
        // What was known before the connection was made may have been lost by the server since.
        line.look(inner, if nth == 0 { Put::Anew } else { Put::IfBroken }).await?;
        all.push(line);
    }
    Ok(all)
}

/// Writes the boundary, with whatever others there are, if its task is as it is known.
pub(super) async fn carry(inner: &Arc<Inner>, boundary: Boundary) -> Answer {
    let (tell, told) = oneshot::channel();
    let line = {
        let mut state = inner.straight.state();
        // Nobody takes up what waits after connections were given up.
        if state.seal != Some(boundary.seal) {
            return Ok(false);
        }
        state.waiting.push((boundary, tell));
        state.idle.pop()
    };
    if let Some(line) = line {
        tokio::spawn(drive(Arc::clone(inner), line));
    }
    told.await.unwrap_or_else(|_| Err(PortError::Unavailable("the call was ended".to_owned())))
}

/// Sends what waits, as long as something does.
async fn drive(inner: Arc<Inner>, mut line: Line) {
    loop {
        // Whoever was answered just now asks again at once: one by one they would go out alone.
        tokio::task::yield_now().await;
        let Some((next, items)) = inner.straight.next(line) else { return };
        line = next;
        if inner.straight.seal() != Some(line.seal) && line.look(&inner, Put::IfBroken).await.is_err() {
            inner.straight.lost(line.lines);
            return tell(items, &Ok(false));
        }
        let (go, stay): (Vec<_>, Vec<_>) = items.into_iter().partition(|(boundary, _)| boundary.seal == line.seal);
        tell(stay, &Ok(false));
        if go.is_empty() {
            continue;
        }
        let (answer, goes_on) = line.write(&inner, &go).await;
        if !goes_on {
            inner.straight.lost(line.lines);
        }
        tell(go, &answer);
    }
}

/// When a seal is put there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    IfBroken,
    Anew,
}

/// Answers of what `push_look` asks.
const LOOKS: usize = 4;

impl Line {
    /// All or none, and whether the connection can be used any longer.
    async fn write(&mut self, inner: &Inner, all: &[Waiting]) -> (Answer, bool) {
        let mut bytes = Vec::with_capacity(all.len() * 1_200);
        let mut count = all.iter().map(|(boundary, _)| boundary.count).sum();
        push_command(&mut bytes, 1, ["MULTI"]);
        all.iter().for_each(|(boundary, _)| bytes.extend_from_slice(&boundary.commands));
        let checkpoints = all.iter().map(|(boundary, _)| &boundary.checkpoint).filter(|text| !text.is_empty());
        let pairs = checkpoints.clone().count();
        if pairs > 0 {
            push_command(&mut bytes, 1 + 2 * pairs, ["MSET"]);
            checkpoints.for_each(|pair| bytes.extend_from_slice(pair));
            count += 1;
        }
        push_command(&mut bytes, 1, ["EXEC"]);
        self.push_look(&mut bytes, inner, Put::IfBroken);
        // Begun, queued each, and ended.
        let answers = match inner.link.on(&self.wire, bytes, count + 2 + LOOKS).await {
            Ok(answers) => answers,
            Err(error) => return (Err(error), false),
        };
        let mut part = answers.part();
        let done = match Line::ended(&mut part, count) {
            Ok(Some(done)) => done,
            // Refused before anything was carried out: a script says why.
            Ok(None) => return (Ok(false), false),
            Err(error) => return (Err(error), false),
        };
        let goes_on = match self.see(inner, &mut part, done) {
            Ok(true) => true,
            // It was broken, and yet it is there: it came back with everything else from a copy.
            Ok(false) => self.look(inner, Put::Anew).await.is_ok(),
            Err(_) => false,
        };
        (Ok(done), goes_on)
    }

    /// Whether everything was carried out, or nothing because the seal was broken; `None`: nothing, for another reason.
    fn ended(part: &mut Part<'_>, count: usize) -> Result<Option<bool>, PortError> {
        let no = |error| corrupt("an answer", error);
        // What is not queued is carried out at once.
        part.value().map_err(no)?.extract_error().map_err(|error| port(&error))?;
        part.skip(count).map_err(no)?;
        match part.value().map_err(no)?.extract_error() {
            Err(_) => Ok(None),
            Ok(Value::Nil) => Ok(Some(false)),
            Ok(Value::Array(each)) if each.len() == count => {
                // Once it is begun all of it is done, unless what is stored is not ours.
                let failed = each.into_iter().find_map(|answer| answer.extract_error().err());
                failed.map_or(Ok(Some(true)), |error| Err(port(&error)))
            }
            Ok(other) => Err(corrupt("an answer", format!("{other:?} is not what was asked for"))),
        }
    }

    /// Puts a seal there and watches it.
    async fn look(&mut self, inner: &Inner, put: Put) -> Result<(), PortError> {
        let mut bytes = Vec::new();
        push_command(&mut bytes, 1, ["UNWATCH"]);
        self.push_look(&mut bytes, inner, put);
        let answers = inner.link.on(&self.wire, bytes, 1 + LOOKS).await?;
        let mut part = answers.part();
        part.skip(1).map_err(|error| corrupt("an answer", error))?;
        match self.see(inner, &mut part, false)? {
            true => Ok(()),
            false => Err(PortError::Unavailable("a seal that was broken is there".to_owned())),
        }
    }

    fn push_look(&self, bytes: &mut Vec<u8>, inner: &Inner, put: Put) {
        let seal = inner.straight.make().0.to_string();
        let words = ["SET", &self.key, &seal, "NX"];
        let n = if put == Put::IfBroken { 4 } else { 3 };
        push_command(bytes, n, words[..n].iter().copied());
        push_command(bytes, 2, ["WATCH", &self.key]);
        push_command(bytes, 2, ["GET", &self.key]);
        push_command(bytes, 1, ["TIME"]);
    }

    /// Which seal is watched now. One that was broken cannot be the same again.
    fn see(&mut self, inner: &Inner, part: &mut Part<'_>, whole: bool) -> Result<bool, PortError> {
        let mut next = || part.value().map_err(|error| corrupt("an answer", error));
        let (_put, watched, seal, time) = (next()?, next()?, next()?, next()?);
        if let Err(error) = watched.extract_error() {
            return Err(port(&error));
        }
        let Value::BulkString(seal) = seal.extract_error().map_err(|error| port(&error))? else { return Ok(false) };
        let seal = std::str::from_utf8(&seal).ok().and_then(|seal| seal.parse().ok()).map(Seal);
        let seal = seal.ok_or_else(|| corrupt("a seal", "it is no number"))?;
        if seal < self.seal || seal == self.seal && !whole {
            return Ok(false);
        }
        let time = &mut parts(time)?;
        let (seconds, micros): (u64, u64) = (time.number()?, time.number()?);
        self.seal = seal;
        inner.straight.saw(seal, Ms::new(seconds * 1_000 + micros / 1_000 + inner.ahead_ms));
        Ok(true)
    }
}
