//! What bounds a queue or a tenant's jobs: shown, and set.

use clap::Args;

use super::remote::Remote;
use super::show::{at, maybe};
use crate::client::{Answer, view};

#[derive(Args)]
pub(super) struct Bounds {
    /// Jobs that run at once, at most; `none` is no bound.
    #[arg(long, value_name = "N", value_parser = bound)]
    running: Option<Bound>,
    /// Jobs that wait, at most: further ones are refused; `none` is no bound.
    #[arg(long, value_name = "N", value_parser = bound)]
    waiting: Option<Bound>,
}

/// A number, or none.
#[derive(Clone, Copy)]
struct Bound(Option<u32>);

fn bound(text: &str) -> Result<Bound, String> {
    match text {
        "none" => Ok(Bound(None)),
        _ => text.parse().map(|n| Bound(Some(n))).map_err(|_| "expected a whole number or none".to_owned()),
    }
}

impl Bounds {
    /// Nothing is to be set: they are only looked at.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_none() && self.waiting.is_none()
    }

    /// What is not said stays as it is.
    pub(super) fn set(&self, hold: Option<bool>) -> crate::client::SetLimits {
        let given = |bound: Option<Bound>| bound.map(|Bound(n)| n);
        crate::client::SetLimits { running: given(self.running), waiting: given(self.waiting), hold }
    }
}

pub(super) fn show(remote: &Remote, kind: &'static str, name: &str, limits: &Answer<view::Limits>) {
    remote.screen.one(limits, |limits| {
        let none = || "no bound".to_owned();
        let held = limits.held.as_ref().map(|held| format!("by {} since {}", held.by, at(held.at)));
        vec![
            (kind, name.to_owned()),
            ("running", limits.running.map_or_else(none, |n| n.to_string())),
            ("waiting", limits.waiting.map_or_else(none, |n| n.to_string())),
            ("held", maybe(held)),
        ]
    });
}
