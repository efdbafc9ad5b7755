//! The OpenAPI 3.1 document, made from the table of routes and the types that requests and answers are.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::auth::Need;
use crate::router::{Gives, Kind, Param, Route, Takes, routes};

static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));

/// The document as it is served.
pub(crate) fn text() -> String {
    TEXT.clone()
}

/// The two directions have their own schemas: what may be left out differs.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

fn settings() -> SchemaSettings {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    settings
}

pub(crate) fn document() -> Value {
    let mut schemas = Schemas {
        requests: settings().for_deserialize().into_generator(),
        answers: settings().for_serialize().into_generator(),
    };
    let mut paths = Map::new();
    for route in routes() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut schemas);
    }
    let mut components = schemas.requests.take_definitions(true);
    components.extend(schemas.answers.take_definitions(true));
    components.insert("Problem".into(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Work for many tenants, stage by stage, that never loses its place.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "description": format!("Role: {}.", route.need.role()),
        "tags": [tag(route.path)],
        "parameters": parameters(route),
        "responses": responses(route, schemas),
        "security": if route.need == Need::Public { json!([]) } else { json!([{ "key": [] }]) },
    });
    let body = match route.takes {
        Takes::Nothing => return operation,
        Takes::Json(schema) => {
            json!({ "required": true, "content": content("application/json", schema(&mut schemas.requests)) })
        }
        Takes::Maybe(schema) => json!({ "content": content("application/json", schema(&mut schemas.requests)) }),
        Takes::Plan => json!({ "required": true, "content": {
            "application/yaml": { "schema": { "type": "string" } },
            "application/toml": { "schema": { "type": "string" } },
            "application/json": { "schema": { "type": "object" } },
        } }),
    };
    operation["requestBody"] = body;
    operation
}

fn tag(path: &str) -> &str {
    path.trim_start_matches("/v1/").trim_start_matches('/').split('/').next().unwrap_or_default()
}

fn content(kind: &str, schema: Schema) -> Value {
    json!({ kind: { "schema": schema } })
}

fn parameters(route: &Route) -> Vec<Value> {
    let part = |name: &str| {
        let schema = match name {
            "job" => json!({ "type": "string", "format": "uuid" }),
            "code" => json!({ "type": "string", "pattern": "^WL-[0-9]{4}$" }),
            _ => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    let mut all: Vec<Value> = route.parts().map(part).collect();
    all.extend(route.query.iter().map(parameter));
    if !matches!(route.takes, Takes::Nothing) && route.need != Need::Work {
        all.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same request again under it is answered the same, for 24 hours; another one is refused",
            "schema": { "type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]+$" },
        }));
    }
    all
}

fn parameter(param: &Param) -> Value {
    let mut more = json!({});
    let schema = match param.kind {
        Kind::Id => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Limit => json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Span => json!({ "type": "string", "pattern": "^[0-9]{1,4}(ms)?$|^[0-9]s$", "examples": ["30s"] }),
        Kind::Words(words) => {
            more = json!({ "style": "form", "explode": false });
            json!({ "type": "array", "items": { "type": "string", "enum": words }, "minItems": 1 })
        }
    };
    let mut all = json!({ "name": param.name, "in": "query", "description": param.about, "schema": schema });
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut all = Map::new();
    let mut add = |status: u16, what: &str, content: Value| {
        all.insert(status.to_string(), json!({ "description": what, "content": content }));
    };
    match route.gives {
        Gives::Json(status, schema) => {
            let schema = schema(&mut schemas.answers);
            add(status, "Done", content("application/json", schema.clone()));
            if status == 201 {
                add(200, "Nothing new: a dry run, or it was there", json!({ "application/json": { "schema": {} } }));
            }
            if route.id == "isReady" {
                add(503, "Not ready", content("application/json", schema));
            }
        }
        Gives::Text(kind) => add(200, "Done", json!({ kind: {} })),
        Gives::Events => add(200, "Events as they happen", json!({ "text/event-stream": {} })),
    }
    for status in route.statuses.iter().filter(|_| route.id != "isReady") {
        let problem = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
        add(*status, "Refused", problem);
    }
    Value::Object(all)
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Why there is no answer (RFC 9457), with a stable code. More members say where or what else.",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": { "type": "string", "description": "The page of the code" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "code": { "type": "string", "pattern": "^WL-[0-9]{4}$" },
            "detail": { "type": "string" },
            "pointer": { "type": "string", "description": "Where in the body (JSON pointer)" },
            "parameter": { "type": "string" },
            "line": { "type": "integer" },
            "column": { "type": "integer" },
            "state": { "type": "string", "description": "Where it stands" },
            "possible": { "type": "array", "items": { "type": "string" }, "description": "What could be done instead" },
            "problems": { "type": "array", "items": { "type": "object" } },
        },
    })
}
