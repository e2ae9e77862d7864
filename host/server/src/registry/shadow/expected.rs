//! The changes that an operator expects of a candidate, as a file in TOML declares them.

use std::str::FromStr;

use http::Method;
use http::header::HeaderName;
use relayer_rest_common::toml_text::{self, dotted};
use serde::{Deserialize, Serialize};

use crate::registry::compare::{Difference, Part};

/// The maximum size of a file of expected changes, in bytes: it is part of the request for a
/// swap.
const MAX_TEXT: usize = 16 << 10;

/// The expected changes of a candidate's responses: `[[change]]` for each, with `route`, `kind`,
/// and `pointer` or `header`.
///
/// ```
/// use relayer_rest_server::registry::ExpectedChanges;
///
/// let text = "[[change]]\nroute = '/chain/{id}'\nkind = 'changed'\npointer = '/result/id'\n";
/// assert_eq!(text.parse::<ExpectedChanges>().unwrap().len(), 1);
/// let error = "[[change]]\nroute = 'chains'\n".parse::<ExpectedChanges>().unwrap_err();
/// assert!(error.to_string().starts_with("not valid at line 2, column 9: change[0].route: "));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedChanges {
    text: String,
    changes: Vec<ExpectedChange>,
}

/// The reason why a text does not declare changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpectedChangesError(String);

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// A value at a JSON pointer that only the candidate has.
    Added,
    /// A value at a JSON pointer that only the active module has.
    Removed,
    /// A value at a JSON pointer that differs.
    Changed,
    /// A body that is not JSON in both responses, or is equal as JSON but written differently.
    Body,
    /// A header.
    Header,
    /// The status.
    Status,
    /// The commands to the relayer.
    Commands,
    /// A failure of the candidate, which cannot be expected.
    Failure,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Entry")]
struct ExpectedChange {
    route: RoutePattern,
    kind: ChangeKind,
    /// A pattern of JSON pointers, or the name of a header; empty for other kinds.
    place: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "change")]
    changes: Vec<ExpectedChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    route: RoutePattern,
    kind: ChangeKind,
    pointer: Option<String>,
    header: Option<String>,
}

/// A pattern of requests: `METHOD /path`, `/path` or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct RoutePattern {
    method: Option<Method>,
    /// The path; `None` for each one.
    path: Option<String>,
}

impl ExpectedChanges {
    /// Returns the text that declares them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether no change is expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the places of the changes that are expected of a request, from 0.
    pub(super) fn of_request(&self, method: &Method, path: &str) -> Vec<usize> {
        let changes = self.changes.iter().enumerate();
        let matching = changes.filter(|(_, change)| change.route.matches(method, path));
        matching.map(|(place, _)| place).collect()
    }

    /// Returns whether a difference is the change at this place.
    pub(super) fn is_at(&self, place: usize, difference: &Difference<'_>) -> bool {
        let change = &self.changes[place];
        change.kind == ChangeKind::of(difference)
            && match difference.part {
                Part::Place(pointer) => matches_pointer(&change.place, pointer.exact()),
                Part::Header(name) => change.place == name,
                Part::Status | Part::Commands | Part::Body => true,
            }
    }

    /// Returns whether a change of the status is the change at this place.
    pub(super) fn is_status(&self, place: usize) -> bool {
        self.changes[place].kind == ChangeKind::Status
    }

    /// Returns the change at a place, as its route, its kind and its pointer or header.
    pub(super) fn describe(&self, place: usize) -> String {
        let ExpectedChange { route, kind, place } = &self.changes[place];
        let method = route.method.as_ref().map(|method| format!("{method} ")).unwrap_or_default();
        let path = route.path.as_deref().unwrap_or("*");
        format!("{method}{path} {} {place}", kind.name()).trim_end().to_owned()
    }
}

impl FromStr for ExpectedChanges {
    type Err = ExpectedChangesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_TEXT {
            let size = text.len();
            let message = format!(
                "too large: {size} bytes; at most {MAX_TEXT} are allowed, so declare fewer changes, with * in their pointers"
            );
            return Err(ExpectedChangesError(message));
        }
        let File { changes } = toml_text::parse(text).map_err(|error| {
            let position = error
                .position
                .map(|position| format!(" at line {}, column {}", position.line, position.column));
            let path = dotted(&error.path);
            let path = if path.is_empty() { path } else { format!("{path}: ") };
            let message = error.message;
            ExpectedChangesError(format!(
                "not valid{}: {path}{message}",
                position.unwrap_or_default()
            ))
        })?;
        Ok(Self { text: text.to_owned(), changes })
    }
}

impl ChangeKind {
    pub(super) fn of(difference: &Difference<'_>) -> Self {
        match difference.part {
            Part::Status => Self::Status,
            Part::Commands => Self::Commands,
            Part::Header(_) => Self::Header,
            Part::Body => Self::Body,
            Part::Place(_) if !difference.is_in_active() => Self::Added,
            Part::Place(_) if !difference.is_in_candidate() => Self::Removed,
            Part::Place(_) => Self::Changed,
        }
    }

    /// Returns the name in the file and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Body => "body",
            Self::Header => "header",
            Self::Status => "status",
            Self::Commands => "commands",
            Self::Failure => "failure",
        }
    }
}

impl TryFrom<Entry> for ExpectedChange {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let Entry { route, kind, pointer, header } = entry;
        let name = kind.name();
        let place = match (kind, pointer, header) {
            (ChangeKind::Failure, ..) => {
                return Err("a failure cannot be expected; correct the module".to_owned());
            }
            (
                ChangeKind::Added | ChangeKind::Removed | ChangeKind::Changed,
                Some(pointer),
                None,
            ) => {
                if !pointer.is_empty() && !pointer.starts_with('/') {
                    return Err(format!(
                        "pointer {pointer:?} is not a JSON pointer; expected one such as '/result/*/id', or '' for the whole body"
                    ));
                }
                pointer
            }
            (ChangeKind::Added | ChangeKind::Removed | ChangeKind::Changed, ..) => {
                return Err(format!("kind '{name}' needs a pointer, and no header"));
            }
            (ChangeKind::Header, None, Some(header)) => {
                let header = header.parse::<HeaderName>().map_err(|_| {
                    format!("{header:?} is not the name of a header; expected one such as 'vary'")
                })?;
                header.as_str().to_owned()
            }
            (ChangeKind::Header, ..) => {
                return Err(format!("kind '{name}' needs a header, and no pointer"));
            }
            (ChangeKind::Body | ChangeKind::Status | ChangeKind::Commands, None, None) => {
                String::new()
            }
            (ChangeKind::Body | ChangeKind::Status | ChangeKind::Commands, ..) => {
                return Err(format!("kind '{name}' has neither a pointer nor a header"));
            }
        };
        Ok(Self { route, kind, place })
    }
}

impl RoutePattern {
    fn matches(&self, method: &Method, path: &str) -> bool {
        let is_of_method = self.method.as_ref().is_none_or(|expected| expected == method);
        is_of_method && self.path.as_ref().is_none_or(|pattern| matches_path(pattern, path))
    }
}

impl TryFrom<String> for RoutePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method), path),
            None => (None, &*text),
        };
        let method = method.map(str::parse::<Method>).transpose();
        let is_valid = path == "*" || (path.starts_with('/') && !path.contains(['?', ' ']));
        match method {
            Ok(method) if is_valid => {
                Ok(Self { method, path: (path != "*").then(|| path.to_owned()) })
            }
            _ => Err(format!(
                "{text:?} is not a route; expected a path below the mount without a query, such as '/chain/{{id}}' or 'GET /chains', or '*'"
            )),
        }
    }
}

/// Returns whether a path has the segments of a pattern, in which a name in braces stands for
/// one segment.
fn matches_path(pattern: &str, path: &str) -> bool {
    let is_parameter = |segment: &str| segment.starts_with('{') && segment.ends_with('}');
    same_segments(pattern, path, is_parameter)
}

/// Returns whether a JSON pointer has the keys of a pattern, in which `*` stands for one key.
fn matches_pointer(pattern: &str, pointer: &str) -> bool {
    same_segments(pattern, pointer, |key| key == "*")
}

fn same_segments(pattern: &str, text: &str, is_any: impl Fn(&str) -> bool) -> bool {
    let mut segments = text.split('/');
    let mut all = pattern.split('/').map(|expected| {
        segments.next().is_some_and(|segment| is_any(expected) || segment == expected)
    });
    all.all(|is_same| is_same) && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::{ExpectedChanges, MAX_TEXT, matches_path, matches_pointer};
    use http::Method;

    #[test]
    fn a_pattern_has_as_many_segments_as_the_text() {
        for (pattern, path, is_match) in [
            ("/chains", "/chains", true),
            ("/chains", "/chains/", false),
            ("/chain/{id}", "/chain/ibc-0", true),
            ("/chain/{id}", "/chain", false),
            ("/chain/{id}", "/chain/ibc-0/x", false),
            ("/{a}/x", "/chain/x", true),
        ] {
            assert_eq!(matches_path(pattern, path), is_match, "{pattern} {path}");
        }
        for (pattern, pointer, is_match) in [
            ("", "", true),
            ("", "/a", false),
            ("/a/*/b", "/a/12/b", true),
            ("/a/*/b", "/a/12/c", false),
            ("/a/0", "/a/0", true),
            ("/a", "/a/0", false),
        ] {
            assert_eq!(matches_pointer(pattern, pointer), is_match, "{pattern} {pointer}");
        }
    }

    #[test]
    fn a_route_may_have_a_method() {
        let changes = "change = [
            { route = 'GET /chain/{id}', kind = 'status' },
            { route = '*', kind = 'header', header = 'Vary' },
            { route = '/chains', kind = 'removed', pointer = '' },
        ]";
        let changes: ExpectedChanges = changes.parse().unwrap();
        assert_eq!(changes.of_request(&Method::GET, "/chain/a"), [0, 1]);
        assert_eq!(changes.of_request(&Method::POST, "/chain/a"), [1]);
        assert_eq!(changes.of_request(&Method::POST, "/chains"), [1, 2]);
        assert_eq!(changes.describe(0), "GET /chain/{id} status");
        assert_eq!(changes.describe(1), "* header vary");
        assert_eq!(changes.describe(2), "/chains removed");
    }

    #[test]
    fn an_error_has_its_location_and_a_remedy() {
        let entry = |fields: &str| format!("# Of 2.0\n[[change]]\n{fields}\n");
        for (text, expected) in [
            ("change = 1".to_owned(), "not valid at line 1, column 10: change: "),
            (
                entry("route = '/a'\nkind = 'change'"),
                "not valid at line 4, column 8: change[0].kind: unknown variant `change`",
            ),
            (
                entry("route = '/a?b'\nkind = 'status'"),
                "not valid at line 3, column 9: change[0].route: \"/a?b\" is not a route; expected ",
            ),
            (
                entry("route = '/a'\nkind = 'added'"),
                "not valid at line 2, column 1: change[0]: kind 'added' needs a pointer",
            ),
            (
                entry("route = '/a'\nkind = 'added'\npointer = 'b'"),
                "not valid at line 2, column 1: change[0]: pointer \"b\" is not a JSON pointer; expected ",
            ),
            (
                entry("route = '/a'\nkind = 'header'\nheader = 'a b'"),
                "not valid at line 2, column 1: change[0]: \"a b\" is not the name of a header; expected ",
            ),
            (
                entry("route = '/a'\nkind = 'body'\npointer = ''"),
                "not valid at line 2, column 1: change[0]: kind 'body' has neither ",
            ),
            (
                entry("route = '/a'\nkind = 'failure'"),
                "not valid at line 2, column 1: change[0]: a failure cannot be expected; correct ",
            ),
            (
                entry("route = '/a'\nkind = 'status'\nreason = ''"),
                "not valid at line 5, column 1: change[0].reason: unknown field `reason`",
            ),
            (
                "#".repeat(MAX_TEXT + 1),
                "too large: 16385 bytes; at most 16384 are allowed, so declare fewer",
            ),
        ] {
            let error = text.parse::<ExpectedChanges>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{expected} is not the start of: {error}");
        }
    }
}
