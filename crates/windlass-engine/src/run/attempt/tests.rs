use super::*;

/// What `begin` answers, without calling it.
fn future_bytes<A, F: Future>(_begin: impl Fn(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn a_task_that_waits_keeps_little() {
    let parts = [
        ("what runs it", future_bytes(Attempt::run), 1_152),
        ("the attempt", size_of::<Attempt>(), 512),
        ("its checkpoint", size_of::<Checkpoint>(), 224),
        ("its signal", size_of::<Signals>(), 96),
        ("its place among those that run here", size_of::<(windlass_core::id::TaskId, Running)>(), 112),
    ];
    for (part, bytes, most) in parts {
        assert!(bytes <= most, "{part}: {bytes} bytes");
    }
}
