//! A checkpoint is stored beside its task while it is small, and apart when it is large; whoever
//! reads it cannot tell.

use std::sync::Arc;

use windlass_core::checkpoint::Checkpoint;
use windlass_core::json::Json;
use windlass_core::port::state::{CheckpointPut, Key, Row, State, Step, TaskPut};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::{Clock, Embedded};

use crate::probe::dump;
use crate::work::{self, id};

#[tokio::test]
async fn a_checkpoint_may_grow_shrink_and_go_and_leaves_nothing_behind() {
    let kv = Arc::new(Memory::default());
    let store = Embedded::over(kv.clone(), Clock::system()).unwrap();
    let plan = work::plan("p-1", 1, Ms::new(1));
    let task = work::task(&plan, "p-1-0", &id("acme"), 0);
    let created = store.commit(&[work::create("op", &plan, std::slice::from_ref(&task))]).await.unwrap();
    let mut version = created[0].as_ref().unwrap().version;
    let apart = || dump(&*kv).iter().filter(|(key, _)| key[0] == b'c').count();
    let mut stored = 0;
    for (round, bytes) in [10, 100_000, 200_000, 10, 3_000, 5_000, 0, 20, 0, 90_000, 0].into_iter().enumerate() {
        let checkpoint = match bytes {
            0 => CheckpointPut::Remove,
            _ => CheckpointPut::Put(Checkpoint {
                context_data: Json::of(&"x".repeat(bytes)).unwrap(),
                version: stored + 1,
                ..Checkpoint::new(1, Ms::new(round as u64))
            }),
        };
        let expected = match &checkpoint {
            CheckpointPut::Put(checkpoint) => Some(Row::Checkpoint(checkpoint.clone())),
            _ => None,
        };
        stored = if bytes == 0 { 0 } else { stored + 1 };
        let from = Statuses::of(&[TaskStatus::Pending]);
        let put = TaskPut { task: task.clone(), from, version, spec: None };
        let step = Step { tasks: vec![put], checkpoint, ..work::step(&format!("round-{round}"), work::person()) };
        store.commit(&[step]).await.unwrap().remove(0).unwrap();
        let load = || async { store.load(&[Key::Checkpoint(task.id.clone())]).await.unwrap().remove(0) };
        assert_eq!(load().await, expected, "{bytes} bytes");
        assert_eq!(apart(), usize::from(bytes > 4_096), "{bytes} bytes");
        // What others ask writes the task again, not the checkpoint.
        let ask = work::about_task(&task, windlass_core::event::Fact::TenantFrozen);
        let told = Step { events: vec![ask], ..work::step(&format!("told-{round}"), work::person()) };
        version = store.commit(&[told]).await.unwrap().remove(0).unwrap().version;
        assert_eq!(load().await, expected, "{bytes} bytes, after another write");
    }
}
