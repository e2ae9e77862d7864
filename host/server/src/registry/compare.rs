//! Compares the responses of two modules to the same requests.

use std::collections::BTreeSet;

use http::header::ETAG;
use http::{HeaderMap, HeaderName};
use relayer_rest_common::bounded_json;
use relayer_rest_common::text::truncate;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::response::{Response, X_RELAYER_MODULE, X_REQUEST_ID};

/// The maximum number of differences that are listed for one body.
const MAX_DIFFERENCES: usize = 8;

/// The maximum length of a listed value, in characters.
const MAX_VALUE: usize = 120;

/// The maximum size of the values of a body that is compared as JSON, in bytes: a state
/// of some ten thousand workers.
const MAX_VALUES: u64 = 64 << 20;

/// A request to which the responses of two modules differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseDifference {
    /// The method and target of the request.
    pub request: String,
    /// About how often clients sent the request, as counted by the cache.
    pub count: u64,
    /// The changes in the response.
    pub changes: Vec<Change>,
}

/// A change between two responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `status`, `commands`, `header NAME`, `body`, or a place in a JSON body as a JSON
    /// pointer, such as `body /result/0`.
    pub part: String,
    /// The value of the active module; `None` if it has none.
    pub from: Option<String>,
    /// The value of the candidate; `None` if it has none.
    pub to: Option<String>,
}

/// Returns the changes between the responses of two modules.
pub(super) fn changes(from: &Response, to: &Response) -> Vec<Change> {
    let mut changes = Vec::new();
    if from.status() != to.status() {
        let status = |response: &Response| Some(response.status().as_u16().to_string());
        changes.push(Change { part: "status".into(), from: status(from), to: status(to) });
    }
    let commands = |response: &Response| {
        let commands: Vec<_> = response.commands().iter().map(ToString::to_string).collect();
        (!commands.is_empty()).then(|| truncate(&commands.join(", ")))
    };
    if from.commands() != to.commands() {
        changes.push(Change { part: "commands".into(), from: commands(from), to: commands(to) });
    }
    let is_etag_compared = from.has_own_etag() || to.has_own_etag();
    let is_of_the_modules = |name: &HeaderName| {
        *name != X_RELAYER_MODULE && *name != X_REQUEST_ID && (*name != ETAG || is_etag_compared)
    };
    let from = from.plain();
    let to = to.plain();
    headers(&from.headers, &to.headers, is_of_the_modules, &mut changes);
    if from.body != to.body {
        body(&from.body, &to.body, &mut changes);
    }
    changes
}

fn headers(
    from: &HeaderMap,
    to: &HeaderMap,
    is_compared: impl Fn(&HeaderName) -> bool,
    changes: &mut Vec<Change>,
) {
    let names = from.keys().chain(to.keys()).filter(|name| is_compared(name));
    let names: BTreeSet<&str> = names.map(HeaderName::as_str).collect();
    for name in names {
        let values = |headers: &HeaderMap| -> Option<String> {
            let values: Vec<_> =
                headers.get_all(name).iter().map(|value| text(value.as_bytes())).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let from = values(from);
        let to = values(to);
        if from != to {
            changes.push(Change { part: format!("header {name}"), from, to });
        }
    }
}

fn body(from: &[u8], to: &[u8], changes: &mut Vec<Change>) {
    let json = |body: &[u8]| bounded_json::parse(body, MAX_VALUES).ok();
    let mut places = Places::default();
    // The second body is parsed only if the first one is JSON.
    if let Some(from) = json(from)
        && let Some(to) = json(to)
    {
        places.compare(&mut String::new(), &from, &to);
    }
    if places.count == 0 {
        // The bodies are not JSON, or are equal as JSON but written differently.
        changes.push(Change { part: "body".into(), from: Some(text(from)), to: Some(text(to)) });
    }
    changes.append(&mut places.first);
    if places.count > MAX_DIFFERENCES {
        let part = format!("body: {} more places", places.count - MAX_DIFFERENCES);
        changes.push(Change { part, from: None, to: None });
    }
}

/// The places at which two values differ: the first of them, and their number.
#[derive(Default)]
struct Places {
    first: Vec<Change>,
    count: usize,
}

impl Places {
    fn compare(&mut self, pointer: &mut String, from: &Value, to: &Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => {
                for (key, value) in from {
                    self.inner(pointer, key, Some(value), to.get(key));
                }
                for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                    self.inner(pointer, key, None, Some(value));
                }
            }
            (Value::Array(from), Value::Array(to)) => {
                for place in 0..from.len().max(to.len()) {
                    self.inner(pointer, &place.to_string(), from.get(place), to.get(place));
                }
            }
            (from, to) if from == to => {}
            (from, to) => self.add(pointer, Some(from), Some(to)),
        }
    }

    fn inner(&mut self, pointer: &mut String, key: &str, from: Option<&Value>, to: Option<&Value>) {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        match (from, to) {
            (Some(from), Some(to)) => self.compare(pointer, from, to),
            (from, to) => self.add(pointer, from, to),
        }
        pointer.truncate(length);
    }

    fn add(&mut self, pointer: &str, from: Option<&Value>, to: Option<&Value>) {
        self.count += 1;
        if self.first.len() < MAX_DIFFERENCES {
            let listed = |value: &Value| text(value.to_string().as_bytes());
            let part = match pointer {
                "" => "body".to_owned(),
                pointer => format!("body {}", truncate(pointer)),
            };
            self.first.push(Change { part, from: from.map(listed), to: to.map(listed) });
        }
    }
}

/// Returns bytes as text, truncated if there are many.
fn text(bytes: &[u8]) -> String {
    // In UTF-8, `MAX_VALUE` + 1 characters have at most this many bytes.
    let some = &bytes[..bytes.len().min(4 * MAX_VALUE + 4)];
    let text = String::from_utf8_lossy(some);
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], bytes.len()),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, MAX_DIFFERENCES, body, text};

    fn check(from: &str, to: &str, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let mut changes = Vec::new();
        body(from.as_bytes(), to.as_bytes(), &mut changes);
        let expected: Vec<_> = expected
            .iter()
            .map(|(part, from, to)| Change {
                part: (*part).to_owned(),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
            })
            .collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn json_is_compared_by_position() {
        check(
            r#"{"a":[1,2,{"b":3}],"gone":true,"x/~y":0}"#,
            r#"{"a":[1,"2",{"b":4},5],"new":null,"x/~y":1}"#,
            &[
                ("body /a/1", Some("2"), Some("\"2\"")),
                ("body /a/2/b", Some("3"), Some("4")),
                ("body /a/3", None, Some("5")),
                ("body /gone", Some("true"), None),
                ("body /x~1~0y", Some("0"), Some("1")),
                ("body /new", None, Some("null")),
            ],
        );
        check("[1]", r#"{"a":1}"#, &[("body", Some("[1]"), Some(r#"{"a":1}"#))]);
    }

    #[test]
    fn other_bodies_are_compared_as_a_whole() {
        check("a", "[1]", &[("body", Some("a"), Some("[1]"))]);
        check("[1]", "[ 1]", &[("body", Some("[1]"), Some("[ 1]"))]);
    }

    #[test]
    fn a_bounded_number_of_differences_is_listed() {
        let list =
            |start: u32| serde_json::to_string(&(start..start + 20).collect::<Vec<_>>()).unwrap();
        let mut changes = Vec::new();
        body(list(0).as_bytes(), list(100).as_bytes(), &mut changes);
        assert_eq!(changes.len(), MAX_DIFFERENCES + 1);
        assert_eq!(changes[MAX_DIFFERENCES].part, "body: 12 more places");
    }

    #[test]
    fn long_values_are_truncated() {
        assert_eq!(text(&[b'a'; 120]), "a".repeat(120));
        assert_eq!(text("ä".repeat(120).as_bytes()), "ä".repeat(120));
        assert_eq!(text("ä".repeat(500).as_bytes()), format!("{}… (1000 bytes)", "ä".repeat(120)));
        assert_eq!(text(&[b'a'; 121]), format!("{}… (121 bytes)", "a".repeat(120)));
    }
}
