//! Folders that are in use, foreign, unwritable or damaged. The rule: refuse and say why, or have
//! everything that was acknowledged; never lose a write silently.

use std::fs::File;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::port::PortError;
use windlass_core::port::lock::{Force, Locks};
use windlass_core::port::state::{Filter, Key, State};
use windlass_core::time::Ms;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::kv::{Kv, Survives, Value};
use windlass_store_embedded::{Clock, Embedded, MARK_FILE, OpenError, Options};

use crate::probe::dump;
use crate::work::{self, id};

fn open(folder: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(folder, &Options::default())
}

fn accept_loss(folder: &Path) -> Embedded {
    Embedded::open(folder, &Options { accept_loss: true, ..Options::default() }).unwrap()
}

/// The message, which is what people see.
fn refused(folder: &Path) -> String {
    match open(folder) {
        Ok(_) => panic!("{} opened", folder.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_folder_that_this_process_has_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let said = refused(folder.path());
    assert!(said.starts_with("WL-4001") && said.contains("in use by another process"), "{said}");
    store.close();
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_that_another_process_has_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut out) = crate::crash::writer(folder.path(), "r0");
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said = refused(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.starts_with("WL-4001"), "{said}");
    open(folder.path()).unwrap();
}

#[test]
fn a_foreign_format_is_refused_and_so_is_data_without_one() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap().close();
    let format = folder.path().join("FORMAT");
    std::fs::write(&format, "windlass-embedded 2").unwrap();
    let said = refused(folder.path());
    assert!(said.starts_with("WL-4003") && said.contains("\"windlass-embedded 2\""), "{said}");
    std::fs::remove_file(&format).unwrap();
    assert!(refused(folder.path()).starts_with("WL-4003"));
    std::fs::write(&format, "windlass-embedded 1\n").unwrap();
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let said = refused(&folder.path().join("file/store"));
    assert!(said.starts_with("WL-4005"), "{said}");
}

#[test]
fn a_folder_whose_making_was_cut_short_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    // As far as fjall comes before it has written its version.
    let draft = folder.path().join("data.new");
    std::fs::create_dir_all(draft.join("keyspaces")).unwrap();
    std::fs::write(draft.join("0.jnl"), "").unwrap();
    std::fs::write(folder.path().join("FORMAT.new"), "").unwrap();
    open(folder.path()).unwrap().close();
    assert!(!draft.exists() && !folder.path().join("FORMAT.new").exists());
    open(folder.path()).unwrap();
}

/// Instances, each in a batch of its own, and as many batches that freeze a tenant or free it.
const BATCHES: usize = 24;

async fn filled(folder: &Path) {
    let store = open(folder).unwrap();
    for n in 0..BATCHES {
        // Some rows are written once and some again, so that both a lost and an old one are seen.
        store.beat(&id(&format!("i-{n:02}")), 60_000).await.unwrap();
        let what = if n % 2 == 0 { Force::Freeze } else { Force::Unfreeze };
        store.force(&id(&format!("t-{}", n / 2)), what, &id("ada"), None, None).await.unwrap().unwrap();
    }
    store.close();
}

/// Whether everything is there that `filled` was told of.
async fn is_all_there(store: &Embedded) -> bool {
    let instances = State::list(store, &Filter::Instances, None, 100).await.unwrap().items.len();
    let frozen = Locks::list(store, None, 100).await.unwrap().items.len();
    instances == BATCHES && frozen == 0
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn journal(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    let mut journals = data.read_dir().unwrap().map(|entry| entry.unwrap().path());
    journals.find(|path| path.extension().is_some_and(|ending| ending == "jnl")).unwrap()
}

/// Where each batch ends: behind the mark that fjall writes there.
fn batch_ends(journal: &[u8]) -> Vec<usize> {
    let mark = b"FJL\x03";
    (mark.len()..=journal.len()).filter(|end| journal[..*end].ends_with(mark)).collect()
}

/// A damaged copy either does not open, or has everything; and accepting the loss opens it for good.
async fn survives(whole: &Path, told: &str, damage: impl Fn(&Path)) -> bool {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("copy");
    copy(whole, &folder);
    damage(&folder);
    match open(&folder) {
        Ok(store) => {
            assert!(is_all_there(&store).await, "{told}: acknowledged writes were lost silently");
            false
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("WL-4002") || said.starts_with("WL-4004"), "{told}: {said}");
            let again = refused(&folder);
            assert_eq!(again[..7], said[..7], "{told}: it does not heal by being looked at");
            if said.starts_with("WL-4002") {
                accept_loss(&folder).close();
                open(&folder).unwrap_or_else(|error| panic!("{told}: the loss was accepted, but {error}")).close();
            }
            true
        }
    }
}

fn flip(path: &Path, at: u64, bits: u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
}

#[tokio::test]
async fn a_damaged_journal_never_loses_a_write_silently() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path()).await;
    let bytes = std::fs::read(journal(whole.path())).unwrap();
    let ends = batch_ends(&bytes);
    assert_eq!(ends.len(), 2 * BATCHES, "batches in the journal");
    let mut refusals = 0;
    // Every bit of the head of a batch, where nothing is covered by fjall's checksum: of the first,
    // of two that free a tenant, of the last. Then a byte here and there.
    let heads = [0, ends[6], ends[BATCHES], ends[2 * BATCHES - 2]];
    let bits = heads.iter().flat_map(|head| (*head..head + 14).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit))));
    for (at, bits) in bits.chain((0..*ends.last().unwrap()).step_by(101).map(|at| (at, 0xff))) {
        let told = format!("byte {at} ^ {bits:#x}");
        refusals += u32::from(survives(whole.path(), &told, |folder| flip(&journal(folder), at as u64, bits)).await);
    }
    assert!(refusals > 50, "only {refusals} damages were noticed");
}

#[tokio::test]
async fn a_journal_that_was_cut_short_is_refused_unless_the_loss_is_accepted() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path()).await;
    let end = *batch_ends(&std::fs::read(journal(whole.path())).unwrap()).last().unwrap();
    for length in [0, 1, end / 3, end / 2, end - 200, end - 1] {
        let cut =
            |folder: &Path| File::options().write(true).open(journal(folder)).unwrap().set_len(length as u64).unwrap();
        assert!(survives(whole.path(), &format!("cut at {length}"), cut).await, "cut at {length} of {end}");
    }
}

#[tokio::test]
async fn a_hole_between_two_journals_is_refused_unless_the_loss_is_accepted() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path()).await;
    let bytes = std::fs::read(journal(whole.path())).unwrap();
    let ends = batch_ends(&bytes);
    // fjall begins a new journal when its memory is full: the same batches, in two files.
    let split = |folder: &Path, until: usize, from: usize| {
        std::fs::write(journal(folder), &bytes[..until]).unwrap();
        std::fs::write(folder.join("data/1.jnl"), &bytes[from..]).unwrap();
    };
    let middle = ends[BATCHES];
    assert!(!survives(whole.path(), "two journals", |folder| split(folder, middle, middle)).await);
    for until in [ends[BATCHES - 1], ends[BATCHES - 1] + 9, middle - 1] {
        let told = format!("a journal ends at {until}, before {middle}");
        assert!(survives(whole.path(), &told, |folder| split(folder, until, middle)).await, "{told}");
    }
}

#[tokio::test]
async fn a_torn_mark_is_survived_and_a_mark_beyond_the_journal_is_believed() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path()).await;
    let mark = |folder: &Path| folder.join(MARK_FILE);
    for at in [0, 3, 8, 11, 512, 515, 520, 523] {
        assert!(!survives(whole.path(), "torn", |folder| flip(&mark(folder), at, 0xff)).await, "byte {at}");
    }
    for length in [0, 5, 512, 517] {
        let cut = |folder: &Path| File::options().write(true).open(mark(folder)).unwrap().set_len(length).unwrap();
        assert!(!survives(whole.path(), "cut", cut).await, "cut at {length}");
    }
    let missing = |folder: &Path| std::fs::remove_file(mark(folder)).unwrap();
    assert!(!survives(whole.path(), "missing", missing).await);
    // One torn slot, and a journal without its last batch.
    let ends = batch_ends(&std::fs::read(journal(whole.path())).unwrap());
    let (short, shorter) = (ends[ends.len() - 2], ends[ends.len() - 3]);
    let file = |folder: &Path| File::options().write(true).open(journal(folder)).unwrap();
    assert!(survives(whole.path(), "short", |folder| file(folder).set_len(short as u64).unwrap()).await);
    for slot in [0, 512] {
        let torn = |folder: &Path| {
            flip(&mark(folder), slot, 0xff);
            file(folder).set_len(shorter as u64).unwrap();
        };
        assert!(survives(whole.path(), "torn and shorter", torn).await, "slot {slot}");
    }
}

#[tokio::test]
async fn a_copy_made_while_the_store_is_open_holds_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    for n in 0..8 {
        let name = format!("i-{n}");
        store.beat(&id(&name), 60_000).await.unwrap();
        let place = tempfile::tempdir().unwrap();
        copy(folder.path(), &place.path().join("copy"));
        let copied = open(&place.path().join("copy")).unwrap();
        assert!(State::load(&copied, &[Key::Instance(id(&name))]).await.unwrap()[0].is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_the_store_goes_on() {
    let kv = Arc::new(Memory::default());
    let store = Embedded::over(Arc::<Memory>::clone(&kv), Clock::new(|| 1_800_000_000_000_000)).unwrap();
    let plan = work::plan("p-1", 2, Ms::new(1_800_000_000_000));
    let tasks = [0, 1].map(|n| work::task(&plan, &format!("p-1-{n}"), &id("acme"), n));
    store.commit(&[work::create("op-1", &plan, &tasks)]).await.unwrap().remove(0).unwrap();
    let (key, mut value) = dump(&*kv).into_iter().find(|(key, _)| key == b"tp-1-0").unwrap();
    value[9] ^= 4;
    kv.commit([(key, Some(Value::from(value)))].into(), Survives::PowerLoss).unwrap();
    let corrupt = |answer: Result<(), PortError>| assert!(matches!(answer, Err(PortError::Corrupt(_))), "{answer:?}");
    corrupt(State::load(&store, &[Key::Task(id("p-1-0"))]).await.map(drop));
    corrupt(State::load(&store, &[Key::Task(id("p-1-1")), Key::TaskHistory(id("p-1-0"))]).await.map(drop));
    let all = windlass_core::task::status::Statuses::NONE;
    let list = Filter::Tasks { plan: None, tenant: None, statuses: all, interrupted: false };
    corrupt(State::list(&store, &list, None, 10).await.map(drop));
    let before = dump(&*kv);
    corrupt(store.commit(&[work::ask_pause("op-2", &tasks[0])]).await.map(drop));
    assert_eq!(dump(&*kv), before, "nothing was written over what is damaged");
    assert_eq!(store.stopped(), None, "one record is damaged, the others are not");
    assert!(State::load(&store, &[Key::Task(id("p-1-1"))]).await.unwrap()[0].is_some());
    store.beat(&id("i-1"), 60_000).await.unwrap();
}
