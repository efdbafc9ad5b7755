//! The bounds of what a job may be.

use windlass_core::job::{ATTEMPTS_MAX, DURATION_MS_MAX, KEY_BYTES_MAX, NewJob, PAYLOAD_BYTES_MAX, When};
use windlass_core::port::Refusal;
use windlass_core::time::Ms;

use crate::job::JobHarness;
use crate::job::world::{Client, ids, job_id, json, new, of};
use crate::world::id;

/// One mebibyte is kept whole; one byte more is refused.
pub async fn a_mebibyte_is_kept_whole(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let text = |bytes: usize| Some(json(&format!("\"{}\"", "é".repeat((bytes - 2) / 2))));
    let most = NewJob { payload: text(PAYLOAD_BYTES_MAX), ..new(1) };
    assert_eq!(most.payload.as_ref().map(|payload| payload.as_str().len()), Some(PAYLOAD_BYTES_MAX));
    one.add(std::slice::from_ref(&most)).await;
    assert_eq!(one.take().await.payload, most.payload);
    let more = NewJob { payload: Some(json(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 1)))), ..new(2) };
    let answer = one.submit(&[more]).await;
    assert!(matches!(answer, Err(Refusal::Invalid(_))), "{answer:?}");
    assert_eq!(one.find(job_id(2)).await, None);
}

/// Bounds are met, and one beyond each is refused.
pub async fn a_job_beyond_its_bounds_is_refused(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let key = |key: String| Some(key);
    let beyond = DURATION_MS_MAX + 1;
    for (n, wrong) in [
        NewJob { max_attempts: 0, ..new(1) },
        NewJob { max_attempts: ATTEMPTS_MAX + 1, ..new(1) },
        NewJob { timeout_ms: Some(0), ..new(1) },
        NewJob { timeout_ms: Some(beyond), ..new(1) },
        NewJob { when: When::In(beyond), ..new(1) },
        NewJob { key: key(String::new()), ..new(1) },
        NewJob { key: key("k".repeat(KEY_BYTES_MAX + 1)), ..new(1) },
        NewJob { key: key("a\u{0}b".to_owned()), ..new(1) },
    ]
    .into_iter()
    .enumerate()
    {
        let answer = one.submit(&[wrong]).await;
        assert!(matches!(answer, Err(Refusal::Invalid(_))), "{n}: {answer:?}");
    }
    assert_eq!(one.everything().await, []);
    let most = NewJob {
        max_attempts: ATTEMPTS_MAX,
        timeout_ms: Some(DURATION_MS_MAX),
        when: When::In(DURATION_MS_MAX),
        key: key("k".repeat(KEY_BYTES_MAX)),
        ..new(1)
    };
    one.add(std::slice::from_ref(&most)).await;
    assert_eq!(one.load(most.id).await.key, most.key);
}

/// Names that differ in case or length only are different, and the longest are names.
pub async fn names_are_kept_apart(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let long = "x".repeat(64);
    let queues = ["a", "A", "aa", "a-", "_", long.as_str()];
    for (n, queue) in queues.into_iter().enumerate() {
        let n = n as u64;
        one.add(&[NewJob { queue: id(queue), key: Some("k".to_owned()), ..of(n, "t") }]).await;
        one.add(&[NewJob { queue: id(queue), key: Some("k".to_owned()), ..of(100 + n, "T") }]).await;
        one.add(&[NewJob { queue: id(queue), key: Some("K".to_owned()), ..of(200 + n, "t") }]).await;
    }
    for (n, queue) in queues.into_iter().enumerate() {
        let mut claimed = ids(&one.claim_from(queue, 9).await);
        claimed.sort();
        let mut wanted = [0, 100, 200].map(|more| job_id(n as u64 + more)).to_vec();
        wanted.sort();
        assert_eq!(claimed, wanted, "{queue}");
    }
}

/// A payload that is absent is not JSON `null`, and JSON comes back as it was written.
pub async fn a_payload_comes_back_as_it_was_given(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let texts = ["null", "0", "\"\"", "{}", r#"{"b":1,"a":1e400,"b":2,"é":"\u0000\ud83e"}"#, "-0.0"];
    one.add(&[NewJob { payload: None, ..new(99) }]).await;
    for (n, text) in texts.into_iter().enumerate() {
        one.add(&[NewJob { payload: Some(json(text)), ..new(n as u64) }]).await;
    }
    let claimed = one.claim(99).await;
    assert_eq!(claimed[0].payload, None);
    let payloads: Vec<_> =
        claimed[1..].iter().map(|job| job.payload.as_ref().map(|payload| payload.as_str())).collect();
    assert_eq!(payloads, texts.map(Some));
    assert_eq!(one.load(job_id(0)).await.payload, Some(json("null")));
}

/// The end of time is a time.
pub async fn the_far_future_does_not_wrap(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let far = Ms::new(i64::MAX as u64 / 2);
    one.add(&[NewJob { when: When::At(far), ..new(1) }, new(2)]).await;
    assert_eq!(one.load(job_id(1)).await.run_at, far);
    assert_eq!(ids(&one.claim(9).await), [job_id(2)]);
    assert_eq!(ids(&one.everything().await), [2, 1].map(job_id));
}
