//! The same questions to two modules, and what they answer differently.

use std::collections::BTreeSet;

use http::header::ETAG;
use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Answer, X_RELAYER_MODULE, X_REQUEST_ID};

/// The most differences in one body that are listed.
const MOST: usize = 8;

/// The longest value that is shown, in bytes.
const LONGEST: usize = 120;

/// Headers that differ for no reason of the modules'.
const OF_THE_HOST: [HeaderName; 3] = [ETAG, X_RELAYER_MODULE, X_REQUEST_ID];

/// A request that two modules answer differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The request: its method and target.
    pub request: String,
    /// About how often clients asked for it while the answer was remembered.
    pub asked: u64,
    /// What differs.
    pub changes: Vec<Change>,
}

/// What differs between two answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `status`, `header NAME`, `body`, or a place in a body of JSON as a JSON
    /// pointer, such as `body /result/0`.
    pub what: String,
    /// What the module in service says; none where it says nothing.
    pub from: Option<String>,
    /// What the candidate says; none where it says nothing.
    pub to: Option<String>,
}

/// What differs between the answers of two modules.
pub(super) fn changes(from: &Answer, to: &Answer) -> Vec<Change> {
    let mut changes = Vec::new();
    if from.status() != to.status() {
        let status = |answer: &Answer| Some(answer.status().as_u16().to_string());
        changes.push(Change { what: "status".into(), from: status(from), to: status(to) });
    }
    let (from, to) = (from.plain(), to.plain());
    headers(&from.headers, &to.headers, &mut changes);
    if from.body != to.body {
        body(&from.body, &to.body, &mut changes);
    }
    changes
}

fn headers(from: &HeaderMap, to: &HeaderMap, changes: &mut Vec<Change>) {
    let names: BTreeSet<&str> = from
        .keys()
        .chain(to.keys())
        .filter(|name| !OF_THE_HOST.contains(name))
        .map(HeaderName::as_str)
        .collect();
    for name in names {
        let values = |headers: &HeaderMap| -> Option<String> {
            let values: Vec<_> =
                headers.get_all(name).iter().map(|value| text(value.as_bytes())).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let (from, to) = (values(from), values(to));
        if from != to {
            changes.push(Change { what: format!("header {name}"), from, to });
        }
    }
}

fn body(from: &[u8], to: &[u8], changes: &mut Vec<Change>) {
    let json = |body| serde_json::from_slice::<Value>(body).ok();
    let before = changes.len();
    if let (Some(from), Some(to)) = (json(from), json(to)) {
        json_changes(&mut String::new(), &from, &to, changes);
    }
    if changes.len() == before {
        // Not JSON, or the same but for how it is written.
        changes.push(Change { what: "body".into(), from: Some(text(from)), to: Some(text(to)) });
    }
    if changes.len() > before + MOST {
        let more = changes.len() - before - MOST;
        changes.truncate(before + MOST);
        let what = format!("body: {more} more places");
        changes.push(Change { what, from: None, to: None });
    }
}

fn json_changes(pointer: &mut String, from: &Value, to: &Value, changes: &mut Vec<Change>) {
    let mut inner = |key: &str, from: Option<&Value>, to: Option<&Value>, changes: &mut Vec<_>| {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        match (from, to) {
            (Some(from), Some(to)) => json_changes(pointer, from, to, changes),
            (from, to) => changes.push(change(pointer, from, to)),
        }
        pointer.truncate(length);
    };
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (key, value) in from {
                inner(key, Some(value), to.get(key), changes);
            }
            for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                inner(key, None, Some(value), changes);
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            for place in 0..from.len().max(to.len()) {
                inner(&place.to_string(), from.get(place), to.get(place), changes);
            }
        }
        (from, to) if from == to => {}
        (from, to) => changes.push(change(pointer, Some(from), Some(to))),
    }
}

fn change(pointer: &str, from: Option<&Value>, to: Option<&Value>) -> Change {
    let shown = |value: &Value| text(value.to_string().as_bytes());
    Change { what: format!("body {pointer}"), from: from.map(shown), to: to.map(shown) }
}

/// Bytes as text, cut where they are many.
fn text(bytes: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned();
    if bytes.len() > LONGEST { format!("{shown}… ({} bytes)", bytes.len()) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::{Change, MOST, body, text};

    fn check(from: &str, to: &str, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let mut changes = Vec::new();
        body(from.as_bytes(), to.as_bytes(), &mut changes);
        let expected: Vec<_> = expected
            .iter()
            .map(|(what, from, to)| Change {
                what: (*what).to_owned(),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
            })
            .collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn json_differs_in_places() {
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
        check("[1]", r#"{"a":1}"#, &[("body ", Some("[1]"), Some(r#"{"a":1}"#))]);
    }

    #[test]
    fn what_is_not_json_or_written_in_another_way_differs_as_a_whole() {
        check("a", "[1]", &[("body", Some("a"), Some("[1]"))]);
        check("[1]", "[ 1]", &[("body", Some("[1]"), Some("[ 1]"))]);
    }

    #[test]
    fn of_many_differences_some_are_listed() {
        let list =
            |start: u32| serde_json::to_string(&(start..start + 20).collect::<Vec<_>>()).unwrap();
        let mut changes = Vec::new();
        body(list(0).as_bytes(), list(100).as_bytes(), &mut changes);
        assert_eq!(changes.len(), MOST + 1);
        assert_eq!(changes[MOST].what, "body: 12 more places");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(text(&[b'a'; 120]), "a".repeat(120));
        assert_eq!(text(&[b'a'; 121]), format!("{}… (121 bytes)", "a".repeat(120)));
    }
}
