//! What many callers ask at the same time goes out as one call of a script: while some are on their way, the next ones
//! gather.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{RedisWrite, ToRedisArgs, Value};
use tokio::sync::oneshot;
use windlass_core::port::PortError;

use crate::Inner;
use crate::reply::{array, parts, text};
use crate::script::Script;

/// Calls on their way at once: one is carried out while another is written and read.
const CALLS: usize = 2;
/// Items of one call.
const ITEMS: usize = 256;

/// Arguments of one item, made by its caller.
#[derive(Default)]
pub(crate) struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        arg.write_redis_args(self);
    }

    /// Behind their number, which counts itself.
    pub(crate) fn counted(self) -> Args {
        let mut all = Args::default();
        all.push(self.ends.len() + 1);
        let shift = all.bytes.len();
        all.bytes.extend(self.bytes);
        all.ends.extend(self.ends.into_iter().map(|end| shift + end));
        all
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end])
    }
}

impl RedisWrite for Args {
    fn write_arg(&mut self, arg: &[u8]) {
        self.bytes.extend_from_slice(arg);
        self.ends.push(self.bytes.len());
    }

    fn writer_for_next_arg(&mut self) -> impl std::io::Write + '_ {
        struct Next<'a>(&'a mut Args);
        impl std::io::Write for Next<'_> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.bytes.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        impl Drop for Next<'_> {
            fn drop(&mut self) {
                self.0.ends.push(self.0.bytes.len());
            }
        }
        Next(self)
    }
}

/// An answer: when the script ran, and what it says of one item.
type Answer = Result<(String, Value), PortError>;

/// Those who wait for the next call.
#[derive(Default)]
pub(crate) struct Group {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<(Args, oneshot::Sender<Answer>)>,
    calls: usize,
}

/// Sends one item with whatever else there is. The script answers a time and a list, in the order of the items.
pub(crate) async fn carry(
    inner: &Arc<Inner>,
    of: fn(&Inner) -> &Group,
    script: &'static std::sync::LazyLock<Script>,
    args: Args,
) -> Answer {
    let (tell, told) = oneshot::channel();
    let goes = {
        let mut state = of(inner).state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push((args, tell));
        let goes = state.calls < CALLS;
        state.calls += usize::from(goes);
        goes
    };
    if goes {
        tokio::spawn(drive(Arc::clone(inner), of, script));
    }
    told.await.unwrap_or_else(|_| Err(PortError::Unavailable("the call was ended".to_owned())))
}

/// Sends what waits, as long as something does.
async fn drive(inner: Arc<Inner>, of: fn(&Inner) -> &Group, script: &'static std::sync::LazyLock<Script>) {
    loop {
        // Whoever was answered just now asks again at once: one by one they would go out alone.
        tokio::task::yield_now().await;
        let items = {
            let mut state = of(&inner).state.lock().unwrap_or_else(PoisonError::into_inner);
            let n = state.waiting.len().min(ITEMS);
            if n == 0 {
                state.calls -= 1;
                return;
            }
            state.waiting.drain(..n).collect::<Vec<_>>()
        };
        let mut call = inner.script(script).arg(items.len());
        for (args, _) in &items {
            args.iter().for_each(|arg| call.push(arg));
        }
        let said = inner.call(&call).await.and_then(|answer| {
            let answer = &mut parts(answer)?;
            Ok((text(answer.value()?)?, array(answer.value()?)?))
        });
        match said {
            Ok((stamp, answers)) => {
                for ((_, tell), answer) in items.into_iter().zip(answers) {
                    drop(tell.send(Ok((stamp.clone(), answer))));
                }
            }
            Err(error) => {
                for (_, tell) in items {
                    drop(tell.send(Err(error.clone())));
                }
            }
        }
    }
}
