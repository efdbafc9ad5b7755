//! `kill -9` under load: what was acknowledged is there, and nothing is half there. The process that
//! dies is the example `crash_writer`; it prints a line for every acknowledged write. (A kill keeps
//! what the kernel has; that a sync is asked for is shown in [`crate::sync`] and at the end here.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::audit;

/// How many processes die in a run.
const KILLS: u32 = 100;
const SOAK_KILLS: u32 = 1_000;
/// Deaths that a folder sees before a new one begins, at most.
const PILE: u64 = 8;
/// A process dies after at most this many acknowledgements.
const LINES: u64 = 400;

#[expect(clippy::disallowed_methods, reason = "how a failure is replayed and a long campaign is asked for")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn new_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// The example stands beside the tests: `cargo test` and `cargo nextest run` build it with them.
pub(crate) fn writer(folder: &Path, run: &str) -> (Child, BufReader<ChildStdout>) {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples/crash_writer");
    let child = Command::new(&program).arg(folder).arg(run).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{}: {error}; is the example built?", program.display()));
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// What was acknowledged last about each thing.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) tasks: BTreeMap<String, Vec<String>>,
    pub(crate) plans: BTreeMap<String, Vec<String>>,
    pub(crate) ops: Vec<String>,
    pub(crate) locks: BTreeMap<String, Lock>,
    pub(crate) beats: BTreeMap<String, u64>,
    pub(crate) triggers: BTreeMap<String, Vec<String>>,
    pub(crate) gone: BTreeSet<String>,
}

/// A tenant's lock: granted, or given back.
pub(crate) struct Lock {
    pub(crate) task: String,
    pub(crate) fence: u64,
    pub(crate) held: bool,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        for part in line.split(';') {
            let words: Vec<String> = part.split(' ').map(str::to_owned).collect();
            match (words[0].as_str(), &words[1..]) {
                ("open", []) => {}
                ("task", [id, rest @ ..]) => drop(self.tasks.insert(id.clone(), rest.to_vec())),
                ("plan", [id, rest @ ..]) => drop(self.plans.insert(id.clone(), rest.to_vec())),
                ("op", [id]) => self.ops.push(id.clone()),
                ("lock" | "free", [tenant, task, fence]) => {
                    let (task, fence, held) = (task.clone(), fence.parse().unwrap(), words[0] == "lock");
                    self.locks.insert(tenant.clone(), Lock { task, fence, held });
                }
                // Sixteen writers renew one lease, and their lines may pass each other.
                ("beat", [instance, until]) => {
                    let latest = self.beats.entry(instance.clone()).or_default();
                    *latest = (*latest).max(until.parse().unwrap());
                }
                // Whoever claims it is not whoever saved it, and their lines may pass each other.
                ("trigger", [id, rest @ ..]) => {
                    let version = |words: &[String]| words[0].parse::<u64>().unwrap();
                    let latest = self.triggers.entry(id.clone()).or_insert_with(|| rest.to_vec());
                    if version(rest) > version(latest) {
                        *latest = rest.to_vec();
                    }
                }
                ("gone", [id]) => drop(self.gone.insert(id.clone())),
                _ => panic!("{line:?} is no acknowledgement"),
            }
        }
    }
}

/// Runs a writer until it has acknowledged `lines` writes and kills it; answers how many it had
/// acknowledged when it was dead.
fn kill_after(folder: &Path, run: &str, lines: u64, acknowledged: &mut Acknowledged) -> u64 {
    let (mut child, mut out) = writer(folder, run);
    let mut seen = 0;
    let mut line = String::new();
    while seen < lines {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the writer ended by itself: {:?}", child.wait());
        acknowledged.note(line.trim_end());
        seen += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died counts, a line without an end does not.
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    for line in rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        acknowledged.note(line);
        seen += 1;
    }
    seen
}

struct Campaign {
    folder: tempfile::TempDir,
    acknowledged: Acknowledged,
    left: u64,
}

impl Campaign {
    fn begin(random: &mut Random) -> Campaign {
        let folder = tempfile::tempdir().unwrap();
        Campaign { folder, acknowledged: Acknowledged::default(), left: 1 + random.below(PILE) }
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill_and_nothing_is_half_written() {
    let seed = setting("WINDLASS_SEED").map_or_else(new_seed, |seed| seed.parse().unwrap());
    let kills = if setting("WINDLASS_SOAK").is_some() { SOAK_KILLS } else { KILLS };
    println!("replay: WINDLASS_SEED={seed} cargo nextest run -p windlass-store-embedded crash");
    let mut random = Random(seed);
    let mut campaign = Campaign::begin(&mut random);
    let mut total = 0;
    for round in 0..kills {
        if campaign.left == 0 {
            campaign = Campaign::begin(&mut random);
        }
        campaign.left -= 1;
        // Now and then before anything was said: while the store is being made or opened.
        let lines = random.below(LINES);
        let lines = if lines < LINES / 10 { 0 } else { lines };
        let folder: PathBuf = campaign.folder.path().into();
        println!("round {round}: dies after {lines} acknowledgements in {}", folder.display());
        let run = format!("r{round}");
        total += kill_after(&folder, &run, lines, &mut campaign.acknowledged);
        audit::check(&folder, &campaign.acknowledged).await;
    }
    println!("{kills} kills, {total} acknowledged writes");
    assert!(total > u64::from(kills), "the writers wrote next to nothing");
}

/// The number of `fdatasync`, as `/proc` shows it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const FDATASYNC: &str = "75";
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const FDATASYNC: &str = "83";

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn the_writer_thread_is_seen_waiting_in_a_sync_of_the_kernel() {
    // Beside the build, because a temporary folder may be in memory, where a sync is nothing.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut child, mut out) = writer(folder.path(), "r0");
    let threads = PathBuf::from(format!("/proc/{}/task", child.id()));
    let said = |thread: &Path, file: &str| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
    let syncs = |thread: PathBuf| {
        said(&thread, "comm").trim() == "windlass-writer"
            && said(&thread, "syscall").split(' ').next() == Some(FDATASYNC)
    };
    // One look between two acknowledgements; the writer spends most of its time there.
    let mut line = String::new();
    let seen = (0..5_000).any(|_| {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the writer ended by itself");
        threads.read_dir().unwrap().any(|thread| syncs(thread.unwrap().path()))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen, "5,000 writes were acknowledged and no fdatasync was seen");
}
