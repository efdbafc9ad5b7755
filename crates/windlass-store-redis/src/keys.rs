//! Every key there is, and nothing else that makes one: Redis Cluster's hash tags can come here. A key is the prefix, a
//! name of this list and, where the name ends with a colon, ids after it, joined by colons; no id holds one.
//!
//! Scripts write `$plan..id`; [`expand`] puts the name in. README.md says what each holds.

/// Names in scripts, and in keys.
const NAMES: &[(&str, &str)] = &[
    // State.
    ("plan", "executor:plan:"),
    ("task", "executor:task:"),
    ("tenant_task", "executor:index:tenant:"),
    ("ckpt", "executor:ckpt:"),
    ("ckpt_meta", "executor:ckpt:meta:"),
    ("plan_spec", "executor:spec:plan:"),
    ("task_spec", "executor:spec:task:"),
    ("plan_history", "executor:history:plan:"),
    ("task_history", "executor:history:task:"),
    ("tenant", "executor:tenant:"),
    ("tally", "executor:tally:"),
    ("op", "executor:op:"),
    ("ops", "executor:ops"),
    ("instance", "executor:instance:"),
    ("instances", "executor:instances"),
    ("owned", "executor:owned:"),
    ("asked", "executor:asked:"),
    ("seal", "executor:seal:"),
    ("plans", "executor:index:plans:"),
    ("tasks", "executor:index:tasks:"),
    ("plan_tasks", "executor:index:plan-tasks:"),
    ("tenant_tasks", "executor:index:tenant-tasks:"),
    ("ready", "executor:ready:"),
    ("claimed", "executor:claimed:"),
    ("claimers", "executor:claimers:"),
    ("open", "executor:open"),
    ("ended_plans", "executor:ended"),
    ("gone_plans", "executor:gone"),
    // Tenant locks.
    ("lock", "executor:lock:tenant:"),
    ("lock_meta", "executor:lock:meta:"),
    ("lock_index", "executor:locks"),
    ("lock_until", "executor:locks:until"),
    ("freeze", "executor:freeze:"),
    // Jobs.
    ("job", "task:"),
    ("job_key", "job:key:"),
    ("job_seq", "job:seq"),
    ("rules", "job:rules"),
    ("parked", "job:parked"),
    ("of_tenant", "job:tenant:"),
    ("ended_jobs", "job:ended:"),
    ("queues", "queues"),
    ("queue", "queue:"),
    ("lane", "queue:ready:"),
    ("waits", "queue:waits:"),
    ("lanes", "queue:lanes:"),
    ("ring", "queue:ring:"),
    ("later", "queue:later:"),
    ("running", "queue:running:"),
    // Triggers.
    ("due", "triggers:due"),
    ("trigger", "trigger:"),
    ("trigger_notes", "trigger:notes:"),
    ("triggers_all", "triggers:index"),
    ("triggers_ended", "triggers:ended"),
    ("triggers_waiting", "triggers:waiting"),
    ("alive", "triggers:alive"),
    // What all of them share.
    ("fence", "fence"),
    ("marks", "marks"),
    ("wake", "wake"),
];

/// The keys of one store.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    /// `None` if the prefix could be mistaken for something else.
    pub(crate) fn new(prefix: &str) -> Option<Keys> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-:./".contains(c);
        (prefix.len() <= 64 && prefix.chars().all(fits)).then(|| Keys { prefix: prefix.to_owned() })
    }

    /// What every script declares.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key without an id.
    pub(crate) fn one(&self, name: &str) -> String {
        format!("{}{}", self.prefix, pattern(name))
    }

    /// The key of something with an id.
    pub(crate) fn of(&self, name: &str, id: &str) -> String {
        format!("{}{}{id}", self.prefix, pattern(name))
    }
}

/// What a name stands for; the tests see to it that there is none in use that is not in the list.
fn pattern(name: &str) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == name).map_or("unknown:", |(_, pattern)| pattern)
}

/// A script with the names of its keys put in: `$plan` becomes `P..'executor:plan:'`.
pub(crate) fn expand(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut rest = source;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let name: String = from[1..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        rest = &from[1 + name.len()..];
        match name.is_empty() {
            // The end of a pattern of Lua.
            true => out.push('$'),
            false => {
                out.push_str("P..'");
                out.push_str(pattern(&name));
                out.push('\'');
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_put_into_scripts() {
        assert_eq!(
            expand("f($plan..id, x:match('a$'), $ops)"),
            "f(P..'executor:plan:'..id, x:match('a$'), P..'executor:ops')"
        );
    }

    #[test]
    fn no_key_can_be_another() {
        let patterns: BTreeSet<&str> = NAMES.iter().map(|(_, pattern)| *pattern).collect();
        assert_eq!(patterns.len(), NAMES.len(), "each name has its own");
        assert_eq!(NAMES.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), NAMES.len());
    }

    #[test]
    fn a_prefix_is_plain() {
        for bad in ["a b", "{tag}", "*", "é", &"x".repeat(65)] {
            assert!(Keys::new(bad).is_none(), "{bad}");
        }
        assert_eq!(Keys::new("windlass:").unwrap().of("plan", "p"), "windlass:executor:plan:p");
        assert_eq!(Keys::new("").unwrap().one("fence"), "fence");
    }
}
