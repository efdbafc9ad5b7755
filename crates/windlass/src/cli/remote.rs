//! The server that commands are for, and what every command does alike: pages, waits, guesses.

use std::time::Duration;

use windlass_core::plan::file::nearest::nearest;

use super::exit::Mistake;
use super::show::Screen;
use super::{Global, note};
use crate::client::{Client, DEFAULT_SERVER, Error, Page, Plans, Tasks};

/// Items of a page, at most.
const PAGE_MAX: u32 = 1_000;

/// A server, and where its answers are shown.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) screen: Screen,
}

/// What an id names.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Plan,
    Task,
    Tenant,
    Trigger,
}

impl Remote {
    pub(super) fn new(global: &Global, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Remote> {
        let given = |name| variable(name).filter(|text| !text.is_empty());
        let server = global.server.clone().or_else(|| given("WINDLASS_SERVER"));
        let server = server.unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let mut builder = Client::builder(&server);
        if let Some(key) = global.key.clone().or_else(|| given("WINDLASS_KEY")) {
            if is_overheard(&server) {
                note(
                    "windlass: the key goes over the network as it is; put TLS in front of the server and use https://",
                );
            }
            builder = builder.key(key);
        }
        // Only a server without credentials listens to it.
        if let Some(by) = given("USER").or_else(|| given("LOGNAME")).and_then(|name| name.parse().ok()) {
            builder = builder.by(by);
        }
        let screen = Screen::new(global.output, given("NO_COLOR").is_some());
        Ok(Remote { client: builder.build()?, screen })
    }

    /// A refusal because something is not there names what was probably meant.
    pub(super) async fn known<T>(&self, answer: Result<T, Error>, kind: Kind, given: &str) -> anyhow::Result<T> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) if error.status() == Some(404) => {
                let hint = self.guess(kind, given).await;
                Err(Mistake { error, hint }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn guess(&self, kind: Kind, given: &str) -> Option<String> {
        let limit = Some(PAGE_MAX);
        let (word, names): (_, Vec<String>) = match kind {
            Kind::Plan => {
                let page = self.client.plans(&Plans { limit, ..Plans::default() }).await.ok()?;
                ("plan", page.items.iter().map(|plan| plan.id.to_string()).collect())
            }
            Kind::Task | Kind::Tenant => {
                let page = self.client.tasks(&Tasks { limit, ..Tasks::default() }).await.ok()?;
                let name = |task: &crate::client::view::Task| match kind {
                    Kind::Task => task.id.to_string(),
                    _ => task.tenant.to_string(),
                };
                let word = if matches!(kind, Kind::Task) { "task" } else { "tenant" };
                (word, page.items.iter().map(|task| name(task)).collect())
            }
            Kind::Trigger => {
                let page = self.client.triggers(limit, None).await.ok()?;
                ("trigger", page.items.iter().map(|trigger| trigger.id.to_string()).collect())
            }
        };
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        // A plan's name without its suffix is what people remember.
        let begins = known.iter().find(|name| name.starts_with(given) && !given.is_empty()).copied();
        begins.or_else(|| nearest(given, &known)).map(|name| format!("did you mean {word} {name}?"))
    }

    /// As many items as were asked for, page after page.
    pub(super) async fn pages<T, F>(
        &self,
        limit: u32,
        mut ask: impl FnMut(Option<u32>, Option<String>) -> F,
    ) -> Result<Page<T>, Error>
    where
        F: Future<Output = Result<Page<T>, Error>>,
    {
        let mut all = Page { items: Vec::new(), next: None, more: false };
        loop {
            let left = limit - u32::try_from(all.items.len()).unwrap_or(limit);
            let page = ask(Some(left.min(PAGE_MAX)), all.next.take()).await?;
            all.items.extend(page.items);
            (all.next, all.more) = (page.next, page.more);
            if all.next.is_none() || all.items.len() >= limit as usize {
                return Ok(all);
            }
        }
    }
}

/// Whether others on the network can read what is sent there.
pub(super) fn is_overheard(server: &str) -> bool {
    let Ok(url) = server.parse::<reqwest::Url>() else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "http" && !here
}

/// How long to wait, from `30s`, `5m`, `1h30m`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let ms = windlass_core::time::duration::parse_ms(text);
    ms.map(Duration::from_millis).ok_or_else(|| format!("{text:?} is no duration; write 30s, 5m or 1h30m"))
}
