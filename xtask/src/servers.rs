//! The servers that tests want, all of them.

use anyhow::Result;

use crate::{mariadb, postgres, redis};

pub(crate) struct Servers {
    mariadb: mariadb::Server,
    postgres: postgres::Server,
    redis: [redis::Server; 2],
}

impl Servers {
    /// They end when this is dropped, whether the tests passed or not.
    pub(crate) fn start() -> Result<Self> {
        let redis = [redis::Server::start(redis::Sync::EverySecond)?, redis::Server::start(redis::Sync::Always)?];
        Ok(Self { mariadb: mariadb::Server::start()?, postgres: postgres::Server::start()?, redis })
    }

    /// How tests learn where they are.
    pub(crate) fn env(&self) -> Vec<(&'static str, String)> {
        self.redis.iter().map(redis::Server::env).chain([self.postgres.env(), self.mariadb.env()]).collect()
    }
}
