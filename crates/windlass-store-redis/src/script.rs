//! Scripts: one file of Lua for each step that the store takes, sent once and called by a name that holds its digest.

use std::sync::LazyLock;

use redis::{Cmd, ToRedisArgs};

use crate::keys::{Keys, expand};

/// A script, and the name by which the server knows it.
pub(crate) struct Script {
    code: String,
    name: String,
    kind: Kind,
}

/// How the server keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As a script, whose Lua makes all of its functions anew each time it runs.
    Eval,
    /// As a function, made once: where that would take longer than what is to be done.
    Function {
        /// Whether it may run while the server's memory is full, because it takes in nothing new.
        when_full: bool,
    },
}

const TAKES_IN: Kind = Kind::Function { when_full: false };
const GOES_ON: Kind = Kind::Function { when_full: true };

impl Script {
    /// `parts` define what `main` uses.
    fn new(kind: Kind, parts: &str, main: &str) -> Script {
        let (parts, main) = (expand(parts), expand(main));
        let Kind::Function { when_full } = kind else {
            let code =
                format!("{parts}\nlocal function main()\n{main}\nend\nstart(KEYS, ARGV)\nreturn answered(main())\n");
            let name = redis::Script::new(&code).get_hash().to_owned();
            return Script { code, name, kind };
        };
        let code = format!("{parts}\nlocal function main()\n{main}\nend\n");
        // Each version has its own: one that is older or newer may run beside it.
        let name = format!("windlass_{}", redis::Script::new(&code).get_hash());
        let flags = if when_full { "'allow-oom'" } else { "" };
        let code = format!(
            "#!lua name={name}\n{code}redis.register_function{{function_name = '{name}', flags = {{{flags}}}, \
             callback = function(keys, given)\nstart(keys, given)\nreturn answered(main())\nend}}\n"
        );
        Script { code, name, kind }
    }
}

macro_rules! scripts {
    ($($kind:ident $name:ident = [$($part:literal),*] $main:literal;)+) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let parts = concat!(include_str!("script/prelude.lua") $(, include_str!(concat!("script/", $part, ".lua")))*);
            Script::new($kind, parts, include_str!(concat!("script/", $main, ".lua")))
        });
    )+

        /// Every one, for tests.
        #[cfg(test)]
        const ALL: &[&LazyLock<Script>] = &[$(&$name),+];
    };
}

const SELDOM: Kind = Kind::Eval;

scripts! {
    TAKES_IN COMMIT = ["leases", "task_index", "steps"] "commit";
    TAKES_IN ONWARD = ["task_index"] "onward";
    TAKES_IN TAKE = ["leases", "task_index"] "take";
    SELDOM BEAT = [] "beat";
    SELDOM PURGE_STATE = [] "purge_state";
    TAKES_IN ACQUIRE = ["locks"] "acquire";
    GOES_ON RENEW = ["locks"] "renew";
    GOES_ON RELEASE = ["locks"] "release";
    SELDOM FORCE = ["locks"] "force";
    SELDOM LOAD_LOCKS = ["locks"] "load_locks";
    SELDOM LIST_LOCKS = ["locks"] "list_locks";
    SELDOM PURGE_LOCKS = ["locks"] "purge_locks";
    TAKES_IN SUBMIT = ["jobs", "life", "submits"] "submit";
    GOES_ON TURN = ["jobs", "life", "turns"] "turn";
    SELDOM ASK = ["jobs", "life"] "ask";
    SELDOM SWEEP = ["jobs", "life"] "sweep";
    SELDOM PURGE_JOBS = ["jobs", "life"] "purge_jobs";
    SELDOM SET_RULES = ["jobs"] "set_rules";
    SELDOM QUEUES = [] "queues";
    SELDOM LIST_LIVE = [] "list_live";
    SELDOM SAVE_TRIGGERS = ["triggers"] "save_triggers";
    SELDOM REMOVE_TRIGGERS = ["triggers"] "remove_triggers";
    SELDOM CLAIM_DUE = ["triggers"] "claim_due";
    SELDOM SETTLE_TRIGGERS = ["triggers"] "settle_triggers";
    SELDOM RENEW_TRIGGERS = ["triggers"] "renew_triggers";
    SELDOM PURGE_TRIGGERS = ["triggers"] "purge_triggers";
}

/// A script and what goes with it, ready to be sent.
pub(crate) struct Call {
    script: &'static Script,
    cmd: Cmd,
}

impl Call {
    pub(crate) fn new(script: &'static Script, keys: &Keys, ahead_ms: u64, listens: bool) -> Call {
        let mut cmd = redis::cmd(if script.kind == Kind::Eval { "EVALSHA" } else { "FCALL" });
        cmd.arg(&script.name).arg(1).arg(keys.prefix()).arg(ahead_ms).arg(u8::from(listens));
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
        let mut cmd = redis::cmd(if self.script.kind == Kind::Eval { "SCRIPT" } else { "FUNCTION" });
        cmd.arg("LOAD");
        if self.script.kind != Kind::Eval {
            // Somebody else may have sent it at the same time.
            cmd.arg("REPLACE");
        }
        cmd.arg(&self.script.code);
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
