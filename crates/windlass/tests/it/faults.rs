//! A network that fails between us and a server while everything is at work: two instances with plans, jobs and a trigger reach their
//! store through a proxy that harms their connections. When it is over, nothing that was acknowledged is lost, nothing has had
//! a second effect, and whatever has not come to its end by itself is in the inbox, says why, and does once a person decides.

mod load;
mod proxy;
mod silent;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::core::port::state::{Filter, Row, State};
use windlass::core::port::{Page, PortError};
use windlass::open::{StoreUrl, open};
use windlass::settings::Settings;

use crate::{mysql_server, redis_server, server, setting};
use load::Load;
use proxy::{Fault, Proxy, Upstream};

const FAULTS: u32 = 100;
const SOAK_FAULTS: u32 = 500;
/// How long a call may go unanswered.
const ANSWER_MS: u64 = 800;
/// Much longer than a connection may take, on a busy machine too.
const FOR_EVER: Duration = Duration::from_secs(240);

/// A server, as it is reached directly and through a proxy.
struct Place {
    upstream: Upstream,
    /// The URL of a store there, reached at this address.
    url: Box<dyn Fn(SocketAddr) -> String>,
    settings: Settings,
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    (settings.postgres.answer_ms, settings.redis.answer_ms) = (ANSWER_MS, ANSWER_MS);
    settings.mysql.answer_ms = ANSWER_MS;
    settings
}

/// A URL's host and port, and the URL with others in their place. A host that is a folder holds a socket, named after the port.
fn through(url: &str, port: u16, socket: impl Fn(u16) -> String) -> Place {
    let (before, rest) = url.split_once("://").map(|(scheme, rest)| (format!("{scheme}://"), rest)).unwrap();
    let (user, rest) = rest.split_once('@').map_or((String::new(), rest), |(user, rest)| (format!("{user}@"), rest));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, after) = (&rest[..end], rest[end..].to_owned());
    let (host, port) = place.rsplit_once(':').map_or((place, port), |(host, port)| (host, port.parse().unwrap()));
    let host = host.replace("%2F", "/");
    let upstream = match host.starts_with('/') {
        true => Upstream::Unix(PathBuf::from(&host).join(socket(port))),
        false => Upstream::Tcp(format!("{host}:{port}")),
    };
    Place { upstream, url: Box::new(move |at| format!("{before}{user}{at}{after}")), settings: settings() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_through_a_network_that_fails_nothing_is_lost_or_done_twice() {
    let url = server::schema().await.url;
    campaign("PostgreSQL", through(&url, 5432, |port| format!(".s.PGSQL.{port}"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_through_a_network_that_fails_nothing_is_lost_or_done_twice() {
    let space = redis_server::space();
    let mut place = through(&space.url, 6379, |_| "redis.sock".to_owned());
    place.settings.redis.prefix = space.prefix;
    campaign("Redis", place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_through_a_network_that_fails_nothing_is_lost_or_done_twice() {
    let database = mysql_server::database().await;
    campaign("MySQL", through(&database.url, 3306, |_| "socket".to_owned())).await;
}

#[tokio::test]
async fn postgres_that_lets_in_and_says_nothing_is_away_and_comes_back() {
    let url = server::schema().await.url.replace("connect_timeout=10", "connect_timeout=1");
    silence(through(&url, 5432, |port| format!(".s.PGSQL.{port}"))).await;
}

#[tokio::test]
async fn redis_that_lets_in_and_says_nothing_is_away_and_comes_back() {
    let space = redis_server::space();
    silence(through(&space.url, 6379, |_| "redis.sock".to_owned())).await;
}

#[tokio::test]
async fn mysql_that_lets_in_and_says_nothing_is_away_and_comes_back() {
    let database = mysql_server::database().await;
    silence(through(&database.url, 3306, |_| "socket".to_owned())).await;
}

/// Nobody waits for ever on a server that does not answer, and whoever asks later is answered.
async fn silence(place: Place) {
    let proxy = Proxy::start(place.upstream.clone()).await;
    let url: StoreUrl = (place.url)(proxy.address).parse().unwrap();
    let stores = open(&url, &place.settings).await.unwrap();
    asked(Arc::clone(&stores.state)).await.unwrap();
    proxy.hole(true);
    // Many at once, and more than there are connections.
    let many: Vec<_> = (0..12).map(|_| tokio::spawn(asked(Arc::clone(&stores.state)))).collect();
    for one in many {
        let answer = one.await.unwrap();
        assert!(matches!(answer, Err(PortError::Unavailable(_))), "{answer:?}");
    }
    proxy.hole(false);
    let began = Instant::now();
    while let Err(error) = asked(Arc::clone(&stores.state)).await {
        assert!(began.elapsed() < FOR_EVER, "{error}");
        tokio::task::yield_now().await;
    }
}

async fn asked(state: Arc<dyn State>) -> Result<Page<Row>, PortError> {
    let read = state.list(&Filter::Instances, None, 1);
    tokio::time::timeout(FOR_EVER, read).await.unwrap_or_else(|_| panic!("it waits for ever"))
}

async fn campaign(name: &str, place: Place) {
    let seed = setting("WINDLASS_SEED").map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    let faults = if setting("WINDLASS_SOAK").is_some() { SOAK_FAULTS } else { FAULTS };
    println!("replay: WINDLASS_SEED={seed} cargo nextest run -p windlass faults");
    let mut dice = fastrand::Rng::with_seed(seed);
    let proxy = Proxy::start(place.upstream.clone()).await;
    let load = Load::begin(&(place.url)(proxy.address), &place.settings).await;
    let began = Instant::now();
    let mut hits = [0; Fault::NAMES.len()];
    for _ in 0..faults {
        load.goes_on(Duration::from_millis(dice.u64(20..150))).await;
        let fault = random(&mut dice);
        let all = dice.u32(..3) == 0;
        let hit = proxy.strike(fault, all, &mut dice).await;
        let kind = Fault::NAMES.iter().position(|name| *name == fault.name()).unwrap();
        hits[kind] += u32::from(hit);
    }
    let told: Vec<_> = Fault::NAMES.iter().zip(hits).map(|(name, hits)| format!("{hits} {name}")).collect();
    let total: u32 = hits.iter().sum();
    println!("{name}: {total} of {faults} faults hit ({}), {:.0?}", told.join(", "), began.elapsed());
    println!("{name}: {} connections were made", proxy.made());
    assert!(total * 2 >= faults && hits.iter().all(|hits| *hits > 0), "too few faults hit anything: {told:?}");
    load.end(name).await;
}

/// Short and long ones: a delay ends before anybody gives up, in a black hole most give up.
fn random(dice: &mut fastrand::Rng) -> Fault {
    match dice.u32(..12) {
        0 | 1 => Fault::Cut,
        2 | 3 => Fault::Reset,
        4 | 5 => Fault::Delay(dice.u64(20..500)),
        6 => Fault::BlackHole(dice.u64(300..2_500)),
        7..=9 => Fault::Lose,
        _ => Fault::Swallow,
    }
}
