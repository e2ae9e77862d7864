//! Validates the responses of a module against the routes that it declares.

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use jsonschema::Validator;
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_conformance::{Recorded, RuleVerdict};
use relayer_rest_sandbox::OpenApi;
use serde_json::{Map, Value};

/// The maximum number of references from one schema to the next, without a value between.
const MAX_REFERENCES: usize = 100;

/// Returns the verdict on the responses to the test cases.
pub(super) fn validate(openapi: &OpenApi, recorded: &[(&str, Vec<Recorded>)]) -> RuleVerdict {
    let mut failure = None;
    for (state, exchanges) in recorded {
        for Recorded { request, outcome } in exchanges {
            let Ok(response) = outcome else { continue };
            if let Err(error) = check(openapi, request, response) {
                let error = escape_control(&truncate(&error));
                failure
                    .get_or_insert_with(|| format!("on the state '{state}': {request}: {error}"));
            }
        }
    }
    RuleVerdict {
        rule: "openapi".to_owned(),
        description:
            "responses have the status, the type and the schema that its document declares"
                .to_owned(),
        tried: true,
        failure,
    }
}

/// Checks that a body is JSON, if its type says so.
pub(super) fn check_json<B: AsRef<[u8]>>(response: &Response<B>) -> Result<(), String> {
    let found = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let body = response.body().as_ref();
    if body.is_empty() || !found.is_some_and(|found| essence(found).ends_with("json")) {
        return Ok(());
    }
    json(body).map(drop)
}

fn json(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))
}

/// Checks one response. Requests for other routes and methods than the declared ones may
/// have any.
pub(super) fn check<B: AsRef<[u8]>>(
    openapi: &OpenApi,
    request: &str,
    response: &Response<B>,
) -> Result<(), String> {
    let (method, target) = request.split_once(' ').unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let Some(route) = openapi.route(path) else { return Ok(()) };
    let Some(operation) = openapi.operation(route, &method.to_ascii_lowercase()) else {
        return Ok(());
    };
    let document = openapi.document();
    let status = response.status();
    let declared = operation.get("responses").and_then(|responses| of_status(responses, status));
    let Some(declared) = declared.and_then(|declared| resolve(document, declared)) else {
        return Err(format!("the status {status} is not declared for {}", route.path()));
    };
    let body = response.body().as_ref();
    let content = declared.get("content").and_then(Value::as_object);
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        return if body.is_empty() {
            Ok(())
        } else {
            Err(format!("no body is declared for {} with status {status}", route.path()))
        };
    };
    let found = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let found = found.unwrap_or("none");
    let media_type = content.iter().find(|(name, _)| essence(name) == essence(found));
    let Some((_, media_type)) = media_type else {
        let names: Vec<_> = content.keys().map(String::as_str).collect();
        return Err(format!("content-type is {found}; declared is {}", names.join(", ")));
    };
    match media_type.get("schema") {
        Some(schema) if essence(found).ends_with("json") => {
            let value = json(body)?;
            validator(document, schema)?.validate(&value).map_err(|error| {
                let place = error.instance_path().to_string();
                format!("{}: {error}", if place.is_empty() { "/" } else { &place })
            })
        }
        _ => Ok(()),
    }
}

/// Returns the declared response with a status: its own, that of its class, or the default.
fn of_status(responses: &Value, status: StatusCode) -> Option<&Value> {
    let class = format!("{}XX", status.as_u16() / 100);
    [status.as_str(), &class, "default"].into_iter().find_map(|name| responses.get(name))
}

/// Follows the references of a value.
fn resolve<'a>(document: &'a Map<String, Value>, mut value: &'a Value) -> Option<&'a Value> {
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = value.get("$ref") else { return Some(value) };
        let pointer = reference.as_str()?.strip_prefix("#/")?;
        let (first, rest) = pointer.split_once('/')?;
        value = document.get(first)?.pointer(&format!("/{rest}"))?;
    }
    None
}

/// Returns the validator of a schema, with the components that it refers to.
fn validator(document: &Map<String, Value>, schema: &Value) -> Result<Validator, String> {
    let mut schema = schema.clone();
    if let (Value::Object(schema), Some(components)) = (&mut schema, document.get("components")) {
        schema.insert("components".to_owned(), components.clone());
    }
    jsonschema::draft202012::new(&schema).map_err(|error| format!("invalid schema: {error}"))
}

/// Returns a content type without its parameters.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{CONTENT_TYPE, Response, check_json};

    #[test]
    fn bodies_whose_type_is_json_are_json() {
        for (content_type, body, is_valid) in [
            ("application/json", r#"{"a": 1}"#, true),
            ("application/json", r#"{"a": nope}"#, false),
            ("application/problem+json; charset=utf-8", "nope", false),
            ("text/plain", "nope", true),
            // Such as the response to a HEAD.
            ("application/json", "", true),
        ] {
            let response = Response::builder().header(CONTENT_TYPE, content_type).body(body);
            let checked = check_json(&response.unwrap());
            assert_eq!(checked.is_ok(), is_valid, "{content_type}: {body}: {checked:?}");
        }
    }
}
