//! Every route, in one table: what it asks of a key, what it takes, what it answers, and who does it. The router, the
//! OpenAPI document and the test over every route and role are made from it.

mod dispatch;
mod table;

use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::auth::Need;
use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::server::Shared;

pub(crate) type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A way in.
pub struct Route {
    /// How.
    pub method: Method,
    /// Where; names in braces are parts that vary.
    pub path: &'static str,
    /// Its name in the OpenAPI document.
    pub id: &'static str,
    /// What it asks of a key.
    pub need: Need,
    /// For people.
    pub summary: &'static str,
    pub(crate) handler: Handler,
    pub(crate) query: &'static [Param],
    pub(crate) takes: Takes,
    pub(crate) gives: Gives,
    pub(crate) statuses: &'static [u16],
}

/// A parameter of the query.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Id,
    Flag,
    Limit,
    Text,
    Span,
    /// One or several of these, divided by commas.
    Words(&'static [&'static str]),
}

/// What a body is.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Nothing,
    /// JSON that may be left out.
    Maybe(SchemaOf),
    Json(SchemaOf),
    Plan,
}

/// What an answer is.
#[derive(Clone, Copy)]
pub(crate) enum Gives {
    Json(u16, SchemaOf),
    Text(&'static str),
    Events,
}

pub(crate) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Route {
    /// The last part of the path: the verb of an operation.
    pub(crate) fn verb(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The parts of the path that vary.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(table::routes);

/// Every route, in the order in which the document shows them.
#[must_use]
pub fn routes() -> &'static [Route] {
    &ROUTES
}

/// The router over all of them.
pub(crate) fn build(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<&'static str> = Vec::new();
    for route in routes() {
        if !paths.contains(&route.path) {
            paths.push(route.path);
        }
    }
    for path in paths {
        let mut methods = MethodRouter::new();
        let mut allowed = Vec::new();
        for (at, route) in routes().iter().enumerate().filter(|(_, route)| route.path == path) {
            let shared = Arc::clone(shared);
            let filter = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
            allowed.push(route.method.as_str());
            methods = methods.merge(on(filter, move |request| dispatch::answer(shared, at, route, request)));
        }
        let allowed = allowed.join(", ");
        router = router.route(path, methods.fallback(async move || dispatch::not_allowed(&allowed)));
    }
    router.fallback(async || Problem::no_route("there is nothing here; /docs lists what there is"))
}
