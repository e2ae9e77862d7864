//! Compares the responses of two modules to the same requests.

use std::borrow::Cow;
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

impl Change {
    /// Returns the change as a line of text.
    #[must_use]
    pub fn describe(&self) -> String {
        let display = |value: &Option<String>| match value.as_deref() {
            None => "(absent)".to_owned(),
            Some("") => "(empty)".to_owned(),
            Some(value) => value.to_owned(),
        };
        match (&self.from, &self.to) {
            (None, None) => self.part.clone(),
            (from, to) => format!("{}: {} -> {}", self.part, display(from), display(to)),
        }
    }
}

/// A part in which two responses differ.
pub(super) struct Difference<'a> {
    pub(super) part: Part<'a>,
    from: Option<Side<'a>>,
    to: Option<Side<'a>>,
}

/// A part of a response.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    Status,
    Commands,
    Header(&'a str),
    /// A body that is not JSON, or that is equal as JSON but written differently.
    Body,
    /// A place in a JSON body.
    Place(&'a Pointer),
}

/// The value of a part.
enum Side<'a> {
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    Json(&'a Value),
}

/// A JSON pointer.
#[derive(Debug, Default)]
pub(super) struct Pointer {
    exact: String,
    /// With `*` for the index of each array.
    general: String,
}

impl Difference<'_> {
    /// Returns whether the active module has a value.
    pub(super) fn is_in_active(&self) -> bool {
        self.from.is_some()
    }

    /// Returns whether the candidate has a value.
    pub(super) fn is_in_candidate(&self) -> bool {
        self.to.is_some()
    }

    /// Returns the values of both modules as texts.
    pub(super) fn change(&self) -> Change {
        let text = |side: &Option<Side<'_>>| side.as_ref().map(Side::text);
        Change { part: self.part.text(), from: text(&self.from), to: text(&self.to) }
    }
}

impl Part<'_> {
    fn text(self) -> String {
        match self {
            Self::Status => "status".to_owned(),
            Self::Commands => "commands".to_owned(),
            Self::Header(name) => format!("header {name}"),
            Self::Body => "body".to_owned(),
            Self::Place(Pointer { exact, .. }) if exact.is_empty() => "body".to_owned(),
            Self::Place(Pointer { exact, .. }) => format!("body {}", truncate(exact)),
        }
    }
}

impl Side<'_> {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.as_ref().to_owned(),
            Self::Bytes(bytes) => text(bytes),
            Self::Json(value) => text(value.to_string().as_bytes()),
        }
    }
}

impl Pointer {
    /// Returns the pointer of RFC 6901.
    pub(super) fn exact(&self) -> &str {
        &self.exact
    }

    /// Returns the pointer with `*` for the index of each array.
    pub(super) fn general(&self) -> &str {
        &self.general
    }
}

/// Returns the changes between the responses of two modules.
pub(super) fn changes(from: &Response, to: &Response) -> Vec<Change> {
    let mut listed = Listed::default();
    differences(from, to, &mut |difference| listed.add(difference));
    listed.into_changes()
}

/// Calls `each` with the differences between the responses of two modules.
pub(super) fn differences(from: &Response, to: &Response, each: &mut dyn FnMut(&Difference<'_>)) {
    if from.status() != to.status() {
        let status =
            |response: &Response| Some(Side::Text(response.status().as_u16().to_string().into()));
        each(&Difference { part: Part::Status, from: status(from), to: status(to) });
    }
    if from.commands() != to.commands() {
        let commands = |response: &Response| {
            let commands: Vec<_> = response.commands().iter().map(ToString::to_string).collect();
            (!commands.is_empty()).then(|| Side::Text(truncate(&commands.join(", ")).into()))
        };
        each(&Difference { part: Part::Commands, from: commands(from), to: commands(to) });
    }
    let is_etag_compared = from.has_own_etag() || to.has_own_etag();
    let is_of_the_modules = |name: &HeaderName| {
        *name != X_RELAYER_MODULE && *name != X_REQUEST_ID && (*name != ETAG || is_etag_compared)
    };
    let from = from.plain();
    let to = to.plain();
    headers(&from.headers, &to.headers, is_of_the_modules, each);
    if from.body != to.body {
        body(&from.body, &to.body, each);
    }
}

fn headers(
    from: &HeaderMap,
    to: &HeaderMap,
    is_compared: impl Fn(&HeaderName) -> bool,
    each: &mut dyn FnMut(&Difference<'_>),
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
            let side = |value: Option<String>| value.map(|value| Side::Text(value.into()));
            each(&Difference { part: Part::Header(name), from: side(from), to: side(to) });
        }
    }
}

fn body(from: &[u8], to: &[u8], each: &mut dyn FnMut(&Difference<'_>)) {
    let json = |body: &[u8]| bounded_json::parse(body, MAX_VALUES).ok();
    let mut places = Places { pointer: Pointer::default(), is_equal: true, each };
    // The second body is parsed only if the first one is JSON.
    if let Some(from) = json(from)
        && let Some(to) = json(to)
    {
        places.compare(&from, &to);
    }
    if places.is_equal {
        let (from, to) = (Some(Side::Bytes(from)), Some(Side::Bytes(to)));
        (places.each)(&Difference { part: Part::Body, from, to });
    }
}

/// Finds the places at which two values differ.
struct Places<'a> {
    pointer: Pointer,
    /// Whether no place was found.
    is_equal: bool,
    each: &'a mut dyn FnMut(&Difference<'_>),
}

impl Places<'_> {
    fn compare(&mut self, from: &Value, to: &Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => {
                for (key, value) in from {
                    self.field(key, Some(value), to.get(key));
                }
                for (key, value) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                    self.field(key, None, Some(value));
                }
            }
            (Value::Array(from), Value::Array(to)) => {
                for place in 0..from.len().max(to.len()) {
                    self.inner(&place.to_string(), "*", from.get(place), to.get(place));
                }
            }
            (from, to) if from == to => {}
            (from, to) => self.found(Some(from), Some(to)),
        }
    }

    fn field(&mut self, key: &str, from: Option<&Value>, to: Option<&Value>) {
        let key = key.replace('~', "~0").replace('/', "~1");
        self.inner(&key, &key, from, to);
    }

    fn inner(&mut self, exact: &str, general: &str, from: Option<&Value>, to: Option<&Value>) {
        let lengths = (self.pointer.exact.len(), self.pointer.general.len());
        for (pointer, step) in
            [(&mut self.pointer.exact, exact), (&mut self.pointer.general, general)]
        {
            pointer.push('/');
            pointer.push_str(step);
        }
        match (from, to) {
            (Some(from), Some(to)) => self.compare(from, to),
            (from, to) => self.found(from, to),
        }
        self.pointer.exact.truncate(lengths.0);
        self.pointer.general.truncate(lengths.1);
    }

    fn found(&mut self, from: Option<&Value>, to: Option<&Value>) {
        self.is_equal = false;
        let (from, to) = (from.map(Side::Json), to.map(Side::Json));
        (self.each)(&Difference { part: Part::Place(&self.pointer), from, to });
    }
}

/// The listed changes, of which a bounded number is in the body.
#[derive(Default)]
struct Listed {
    changes: Vec<Change>,
    in_body: usize,
}

impl Listed {
    fn add(&mut self, difference: &Difference<'_>) {
        if matches!(difference.part, Part::Place(_)) {
            self.in_body += 1;
            if self.in_body > MAX_DIFFERENCES {
                return;
            }
        }
        self.changes.push(difference.change());
    }

    fn into_changes(mut self) -> Vec<Change> {
        if self.in_body > MAX_DIFFERENCES {
            let part = format!("body: {} more places", self.in_body - MAX_DIFFERENCES);
            self.changes.push(Change { part, from: None, to: None });
        }
        self.changes
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
    use super::{Change, Listed, MAX_DIFFERENCES, text};

    fn body(from: &str, to: &str) -> Vec<Change> {
        let mut listed = Listed::default();
        super::body(from.as_bytes(), to.as_bytes(), &mut |difference| listed.add(difference));
        listed.into_changes()
    }

    fn check(from: &str, to: &str, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(part, from, to)| Change {
                part: (*part).to_owned(),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
            })
            .collect();
        assert_eq!(body(from, to), expected);
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
        let changes = body(&list(0), &list(100));
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
