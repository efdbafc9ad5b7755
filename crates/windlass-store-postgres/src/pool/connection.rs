//! One connection: its statements are prepared once, and many may be under way at a time.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};
use windlass_core::port::PortError;

use super::Call;
use crate::error::{Failure, said};
use crate::job::feed::Feed;
use crate::sql;
use crate::tls::Target;
use crate::wake::{self, Heard};

/// How long a server that let us in may take until the connection can be used, beyond what the URL gives it to let us in: one
/// that says nothing must not hold up everybody who waits for a connection.
const SET_UP: Duration = Duration::from_secs(5);

pub(crate) struct Connection {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    spoilt: AtomicBool,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub(crate) async fn connect(target: &Target) -> Result<Connection, String> {
    in_time(target, set_up(target)).await
}

async fn in_time(
    target: &Target,
    made: impl Future<Output = Result<Connection, String>>,
) -> Result<Connection, String> {
    let limit = target.config.get_connect_timeout().copied().unwrap_or_default() + SET_UP;
    match tokio::time::timeout(limit, made).await {
        Ok(made) => made,
        Err(_) => Err("PostgreSQL let us in and then did not answer".to_owned()),
    }
}

async fn set_up(target: &Target) -> Result<Connection, String> {
    let (client, driver) = target.config.connect(target.tls.clone()).await.map_err(|error| said(&error))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::warn!(why = said(&error), "a connection to PostgreSQL ended");
        }
    });
    let connection = Connection::new(client, driver.abort_handle());
    connection.batch(sql::SESSION).await.map(|()| connection).map_err(|error| said(&error))
}

/// A connection that hears what is notified on `channel`: `heard` is told, and what is said goes to the feed. It ends when
/// the server does.
pub(crate) async fn listen(
    target: &Target,
    channel: &str,
    heard: Arc<Heard>,
    feed: Arc<Feed>,
) -> Result<Connection, String> {
    in_time(target, set_up_listener(target, channel, heard, feed)).await
}

async fn set_up_listener(
    target: &Target,
    channel: &str,
    heard: Arc<Heard>,
    feed: Arc<Feed>,
) -> Result<Connection, String> {
    let (client, mut driver) = target.config.connect(target.tls.clone()).await.map_err(|error| said(&error))?;
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message {
                wake::hear(notice.payload(), &heard, &feed);
            }
        }
    });
    let connection = Connection::new(client, driver.abort_handle());
    let quoted = channel.replace('"', "\"\"");
    connection.client.batch_execute(&format!("LISTEN \"{quoted}\"")).await.map_err(|error| said(&error))?;
    Ok(connection)
}

impl Connection {
    fn new(client: Client, driver: AbortHandle) -> Connection {
        Connection { client, prepared: Mutex::default(), spoilt: AtomicBool::new(false), driver }
    }

    pub(crate) fn is_sound(&self) -> bool {
        !self.spoilt.load(Ordering::Relaxed) && !self.client.is_closed()
    }

    /// Nothing more goes over it; what is in flight ends.
    pub(crate) fn spoil(&self) {
        self.spoilt.store(true, Ordering::Relaxed);
        self.driver.abort();
    }

    /// Reads each row as it comes, while the server is at the next ones.
    pub(super) async fn query<T>(
        &self,
        call: &Call,
        read: impl Fn(Row) -> Result<T, PortError>,
    ) -> Result<Vec<T>, Failure> {
        let statement = self.statement(call.sql).await?;
        let mut rows = pin!(self.client.query_raw(&statement, borrowed(call)).await?);
        let mut all = Vec::new();
        while let Some(row) = rows.try_next().await? {
            all.push(read(row)?);
        }
        Ok(all)
    }

    /// Sends every call before the first answer is awaited. The first failure is the answer.
    pub(super) async fn pipeline(&self, calls: &[Call]) -> Result<Vec<Vec<Row>>, Failure> {
        let mut statements = Vec::with_capacity(calls.len());
        for call in calls {
            statements.push(self.statement(call.sql).await?);
        }
        let params: Vec<_> = calls.iter().map(borrowed).collect();
        let sent = statements.iter().zip(&params).map(|(statement, params)| {
            let answer: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.client.query(statement, params));
            answer
        });
        let answers = in_order(sent.collect()).await;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }

    async fn statement(&self, sql: &'static str) -> Result<Statement, Failure> {
        let known = self.prepared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

fn borrowed(call: &Call) -> Vec<&(dyn ToSql + Sync)> {
    call.params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect()
}

/// Polls all of them, always from the first to the last: a request is sent when it is first polled, so
/// they are sent in this order.
async fn in_order<T>(mut all: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(answer) = future.as_mut().poll(cx)
            {
                *done = Some(answer);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
