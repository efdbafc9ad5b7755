use windlass_core::job::NewJob;
use windlass_core::job::rules::{accept, deliver};

use super::*;
use crate::kv::Kv as _;
use crate::kv::memory::Memory;

fn kept(payload: Option<&str>) -> Kept {
    let payload = payload.map(|text| Json::parse(text).unwrap());
    let new = NewJob {
        tenant: Some("acme".parse().unwrap()),
        priority: -128,
        key: Some("k 1".into()),
        timeout_ms: Some(1),
        ..NewJob::new(JobId::random(7), "mail".parse().unwrap(), payload)
    };
    let job = accept(&new, u64::MAX, Ms::new(1_800_000_000_000));
    let mut job = match deliver(job, &"w-1".parse().unwrap(), Fence(u64::MAX), 5, Ms::MAX) {
        windlass_core::job::rules::Delivered::Claimed(job) => job,
        windlass_core::job::rules::Delivered::Settled(job) => job,
    };
    job.error = Some(Box::new(JobError::of("E", "it \"broke\"")));
    job.cancel = Some(Asker { by: "ann".parse().unwrap(), reason: None, at: Ms::ZERO });
    let (payload, _) = Text::of(job.payload.take()).unwrap();
    Kept { job, payload, result: Text::New(Json::null()) }
}

#[test]
fn a_job_comes_back_as_it_was_written() {
    let nowhere = Memory::default();
    for payload in [None, Some("null"), Some(r#"{"ü":[1,2.50]}"#)] {
        let kept = kept(payload);
        let value = kept.encode().unwrap();
        assert_eq!(status(&value).unwrap(), JobStatus::Running);
        let read = Kept::decode(&value).unwrap();
        assert_eq!(read.encode().unwrap(), value, "it is written the same again");
        let whole = kept.whole(&*nowhere.read()).unwrap();
        assert_eq!(read.whole(&*nowhere.read()).unwrap(), whole);
        assert_eq!(whole.payload.as_ref().map(Json::as_str), payload);
        assert_eq!(whole.result, Some(Json::null()));
    }
}

#[test]
fn a_damaged_job_is_an_error_wherever_it_is_damaged() {
    let value = kept(Some("{}")).encode().unwrap();
    for at in 0..value.len() {
        assert!(Kept::decode(&Value::from(&value[..at])).is_err(), "cut at {at}");
        let mut bytes = value.to_vec();
        bytes[at] ^= 0x55;
        assert!(Kept::decode(&Value::from(bytes.clone())).is_err(), "changed at {at}");
        // Also when the checksum fits: an error, or another job, never a panic.
        if at >= HEAD_BYTES {
            drop(Kept::decode(&record::sealed(bytes)));
        }
    }
}
