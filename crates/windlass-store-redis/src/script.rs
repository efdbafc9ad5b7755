//! Scripts: one file of Lua for each step that the store takes, sent once and called by its digest.

use std::sync::LazyLock;

use redis::{Cmd, ToRedisArgs};

use crate::keys::{Keys, expand};

/// A script, and the digest by which the server knows it.
pub(crate) struct Script {
    code: String,
    digest: String,
}

impl Script {
    fn new(source: &str) -> Script {
        let code = expand(source);
        let digest = redis::Script::new(&code).get_hash().to_owned();
        Script { code, digest }
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = [$($part:literal),+];)+) => {$(
        $(#[$doc])*
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("script/prelude.lua") $(, include_str!(concat!("script/", $part, ".lua")))+))
        });
    )+

        /// Every one, for tests.
        #[cfg(test)]
        const ALL: &[&LazyLock<Script>] = &[$(&$name),+];
    };
}

scripts! {
    COMMIT = ["leases", "task_index", "commit"];
    BOUNDARY = ["boundary"];
    TAKE = ["leases", "task_index", "take"];
    BEAT = ["beat"];
    PURGE_STATE = ["purge_state"];
    ACQUIRE = ["locks", "acquire"];
    RENEW = ["locks", "renew"];
    RELEASE = ["locks", "release"];
    FORCE = ["locks", "force"];
    LOAD_LOCKS = ["locks", "load_locks"];
    LIST_LOCKS = ["locks", "list_locks"];
    PURGE_LOCKS = ["locks", "purge_locks"];
    SUBMIT = ["jobs", "life", "submit"];
    TURN = ["jobs", "life", "turn"];
    ASK = ["jobs", "life", "ask"];
    SWEEP = ["jobs", "life", "sweep"];
    PURGE_JOBS = ["jobs", "life", "purge_jobs"];
    SET_RULES = ["jobs", "set_rules"];
    QUEUES = ["queues"];
    LIST_LIVE = ["list_live"];
    SAVE_TRIGGERS = ["triggers", "save_triggers"];
    REMOVE_TRIGGERS = ["triggers", "remove_triggers"];
    CLAIM_DUE = ["triggers", "claim_due"];
    SETTLE_TRIGGERS = ["triggers", "settle_triggers"];
    RENEW_TRIGGERS = ["triggers", "renew_triggers"];
    PURGE_TRIGGERS = ["triggers", "purge_triggers"];
}

/// A script and what goes with it, ready to be sent.
pub(crate) struct Call {
    script: &'static Script,
    cmd: Cmd,
}

impl Call {
    pub(crate) fn new(script: &'static Script, keys: &Keys, ahead_ms: u64) -> Call {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&script.digest).arg(1).arg(keys.prefix()).arg(ahead_ms);
        Call { script, cmd }
    }

    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.push(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        self.cmd.arg(arg);
    }

    pub(crate) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// What makes it known to the server.
    pub(crate) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&self.script.code);
        cmd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_script_is_in_the_list() {
        for script in ALL {
            assert!(!script.code.contains("'unknown:'"), "{}", script.code);
        }
    }
}
