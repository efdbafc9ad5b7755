//! The API for people: one page that loads nothing from elsewhere.

use std::fmt::Write as _;

use crate::problem::PAGES;
use crate::router::routes;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;\
background:#fff}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid \
#ddd;vertical-align:top}code{font:13px ui-monospace,monospace}@media(prefers-color-scheme:dark){body{color:#ddd;background:\
#181818}td,th{border-color:#444}a{color:#8bf}}";

/// The page.
pub(crate) fn api() -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Windlass API</title><style>{STYLE}</style>\
         <h1>Windlass API</h1><p>The whole of it is <a href=/openapi.json>openapi.json</a> (OpenAPI 3.1). Errors are \
         <code>application/problem+json</code> with a code that has a page, listed below. Every change takes an \
         <code>Idempotency-Key</code>.</p><table><tr><th>Request<th>Role<th>What it does<th>Parameters"
    );
    for route in routes() {
        let params: Vec<_> = route.query.iter().map(|param| param.name).collect();
        // Writing to a text cannot fail.
        let _ = write!(
            page,
            "<tr id={}><td><code>{} {}</code><td>{}<td>{}<td><code>{}</code>",
            route.id,
            route.method,
            route.path,
            route.need.role(),
            escaped(route.summary),
            params.join(" ")
        );
    }
    page.push_str("</table><h2>Error codes</h2><table>");
    for (code, title, _) in PAGES {
        let _ = write!(page, "<tr><td><a href=/docs/errors/{code}><code>{code}</code></a><td>{}", escaped(title));
    }
    page.push_str("</table></html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
