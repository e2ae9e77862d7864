//! Parses TOML, with the line, the column and the key of each error.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use bytesize::ByteSize;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};
use toml::de::{DeTable, DeValue};

use crate::text::{escape_control as escaped, truncate_at};

/// A position in a text. Both numbers start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The maximum length of an error's message, in characters: it quotes the text.
const MAX_MESSAGE: usize = 1000;

/// The maximum length of a key in a path, in characters.
const MAX_KEY: usize = 100;

/// An error in a text, with its position.
#[derive(Debug)]
pub struct TomlError {
    /// The position, if it is known.
    pub position: Option<Position>,
    /// The keys and array indices that lead to the value.
    pub path: Vec<Step>,
    /// The description of the error.
    pub message: String,
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// A place in an array, from 0.
    Index(usize),
}

/// Parses a text into a typed value.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    let located = |error: &toml::de::Error, path: Vec<Step>| TomlError {
        position: match path.last() {
            // The parser's span is that of the whole array.
            Some(Step::Index(_)) => Some(Position::locate(text, &path)),
            _ => error.span().map(|span| Position::from_offset(text, span.start)),
        },
        path,
        message: {
            let message = escaped(&truncate_at(&escape_control(error.message()), MAX_MESSAGE));
            let start = error.span().map_or(0, |span| span.start);
            list_expected(&message, text, start).unwrap_or_else(|| {
                let remedy = if message == "duplicate key" {
                    unique(text, start)
                } else {
                    suggestion(&message)
                };
                format!("{message}{remedy}")
            })
        },
    };
    let source = toml::Deserializer::parse(text).map_err(|error| located(&error, Vec::new()))?;
    serde_path_to_error::deserialize(source)
        .map_err(|error| located(error.inner(), steps(error.path())))
}

/// Returns the name that was probably meant by an unknown one.
pub fn closest<'a>(unknown: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// The minimum similarity, of 1.
    const MIN_SIMILARITY: f64 = 0.8;
    let similarity = |name: &str| strsim::jaro_winkler(unknown, name);
    let best = names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    best.filter(|name| similarity(name) >= MIN_SIMILARITY)
}

/// Returns the name that was probably meant instead of an unknown one, as a question.
fn suggestion(message: &str) -> String {
    let is_unknown =
        ["unknown field `", "unknown variant `"].iter().any(|start| message.starts_with(start));
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(unknown) = names.next().filter(|name| is_unknown && !name.is_empty()) else {
        return String::new();
    };
    match closest(unknown, names) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

/// Returns the message about a value that is not a list, but must be one. `start` is its offset
/// in the text.
fn list_expected(message: &str, text: &str, start: usize) -> Option<String> {
    let found = message.strip_prefix("invalid type: ")?.strip_suffix(", expected a sequence")?;
    let header = line_at(text, start);
    let section = header.strip_prefix('[').and_then(|header| header.split([']', '.']).next());
    let value = found.strip_prefix("string ").filter(|value| value.len() <= MAX_KEY);
    Some(match (section, value) {
        (Some(name), _) if found == "map" && name.len() <= MAX_KEY => {
            format!("a section that can be repeated; write it as [[{}]]", escaped(name.trim()))
        }
        (_, Some(value)) => format!("expected a list, not a string; write [{value}]"),
        _ => format!("expected a list, not {found}; write its values in [ ]"),
    })
}

/// Returns the line with this offset, without the spaces around it.
fn line_at(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or_default().trim()
}

/// Returns the remedy for a key that is not the only one of its name.
fn unique(text: &str, start: usize) -> String {
    let line = line_at(text, start);
    let is_section = line.starts_with("[[");
    match line.trim_matches(['[', ']']) {
        name if is_section && name.len() <= MAX_KEY => format!(
            ": {} has a value above; write all of them as [[{}]], or all in the value",
            escaped(name),
            escaped(name)
        ),
        _ => "; give it once".to_owned(),
    }
}

/// Parses a duration; the error describes the syntax.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| {
        format!(
            "'{text}' is not a duration ({error}); expected one such as '500ms', '10s' or '14days'"
        )
    })
}

/// Deserializes a duration from a field of a file.
pub fn duration_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Deserializes a size from a field of a file.
pub fn size_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    size(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Parses a size; the error describes the syntax.
pub fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|error| {
        format!("'{text}' is not a size ({error}); expected one such as '64MiB' or '500kB'")
    })
}

/// Returns the text of a size, without loss: `64MiB`, or `500000B`.
#[must_use]
pub fn size_text(size: ByteSize) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let bytes = size.as_u64();
    let unit = UNITS.iter().find(|(unit, _)| bytes != 0 && bytes.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or(&(1, "B"));
    format!("{}{name}", bytes / unit)
}

impl Position {
    /// Returns the position of a byte of the text.
    #[must_use]
    pub fn from_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl Position {
    /// Returns the position of the value at this path, or of its last parent that exists;
    /// line 1, column 1 if there is none.
    #[must_use]
    pub fn locate(text: &str, path: &[Step]) -> Self {
        let Ok(table) = DeTable::parse(text) else { return Self { line: 1, column: 1 } };
        let mut start = 0;
        let mut value: Option<&DeValue> = None;
        for step in path {
            let next = match (step, value) {
                (Step::Key(key), None) => table.get_ref().get(key.as_str()),
                (Step::Key(key), Some(DeValue::Table(table))) => table.get(key.as_str()),
                (Step::Index(index), Some(DeValue::Array(array))) => array.get(*index),
                _ => None,
            };
            let Some(next) = next else { break };
            (start, value) = (next.span().start, Some(next.get_ref()));
        }
        Self::from_offset(text, start)
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Returns the notation of a path: `chains[2].gas_price.price`. Keys are quoted if
/// necessary.
#[must_use]
pub fn dotted(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                if (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(is_bare) {
                    text.push_str(key);
                } else {
                    let key = truncate_at(key, MAX_KEY);
                    let escaped = key.escape_debug();
                    text.extend(['"'].into_iter().chain(escaped).chain(['"']));
                }
            }
            Step::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}

/// Returns the steps of a path, without the parser's own entries for spans.
fn steps(path: &Path) -> Vec<Step> {
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Map { key } if key.starts_with("$__") => None,
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// Returns a message in one line. If it contains an `@`, removes the text between its
/// first and its last quote: that may be a URL with a password, in the wrong field.
pub fn escape_control(message: &str) -> String {
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let message: String = message.chars().filter(|character| !character.is_control()).collect();
    let Some(at) = message.find('@') else { return message };
    let quote = ['"', '\'', '`'];
    let start = message[..at].find(quote).map_or(0, |start| start + 1);
    let end = message[at..].rfind(quote).map_or(message.len(), |end| at + end);
    format!("{}…{}", &message[..start], &message[end..])
}

#[cfg(test)]
mod tests {
    use super::{Position, Step, dotted, parse};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only the error matters")]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "only the error matters")]
        number: u8,
    }

    #[test]
    fn a_key_that_is_not_unique_has_a_remedy() {
        let message = |text| parse::<Outer>(text).unwrap_err().message;
        assert_eq!(
            message("inner = [{ number = 1 }]\n[[inner]]\nnumber = 2"),
            "duplicate key: inner has a value above; write all of them as [[inner]], or all in the value"
        );
        assert_eq!(message("inner = []\ninner = []"), "duplicate key; give it once");
    }

    #[test]
    fn a_value_that_must_be_a_list_has_a_remedy() {
        for (text, line, message) in [
            (
                "\n [inner]  # one\nnumber = 1",
                2,
                "a section that can be repeated; write it as [[inner]]",
            ),
            (
                "[inner.limits]\nnumber = 1",
                1,
                "a section that can be repeated; write it as [[inner]]",
            ),
            ("inner = 'a\"b'", 1, "expected a list, not a string; write [\"a\\\"b\"]"),
            ("inner = 1", 1, "expected a list, not integer `1`; write its values in [ ]"),
            ("inner.number = 1", 1, "expected a list, not map; write its values in [ ]"),
        ] {
            let error = parse::<Outer>(text).unwrap_err();
            assert_eq!(error.message, message, "{text}");
            assert_eq!(error.position.map(|position| position.line), Some(line), "{text}");
            assert_eq!(dotted(&error.path), "inner");
        }
    }

    #[test]
    fn a_misspelt_key_has_a_suggestion() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        #[expect(dead_code, reason = "only the error matters")]
        struct Section {
            clear_packets: Option<bool>,
            token_file: Option<String>,
        }
        for (key, suggestion) in [
            ("token_file", "; did you mean `token-file`?"),
            ("clear-packet", "; did you mean `clear-packets`?"),
            ("nonsense", ""),
            ("'`token-file`'", ""),
        ] {
            let error = parse::<Section>(&format!("{key} = 1")).unwrap_err();
            let end = format!("`clear-packets` or `token-file`{suggestion}");
            assert!(error.message.ends_with(&end), "{}", error.message);
        }
    }

    #[test]
    fn a_wrong_type_names_its_place_and_its_key() {
        let error =
            parse::<Outer>("[[inner]]\nnumber = 1\n[[inner]]\n  number = 'ü'\n").unwrap_err();
        assert_eq!(error.position, Some(Position { line: 4, column: 12 }));
        assert_eq!(dotted(&error.path), "inner[1].number");
        assert_eq!(error.message, "invalid type: string \"ü\", expected u8");
    }

    #[test]
    fn a_wrong_element_of_an_array_names_its_own_place() {
        let error = parse::<std::collections::BTreeMap<String, Vec<u8>>>("a = [\n 1,\n 'x',\n]");
        let error = error.unwrap_err();
        assert_eq!(error.position, Some(Position { line: 3, column: 2 }));
        assert_eq!(dotted(&error.path), "a[1]");
    }

    #[test]
    fn broken_syntax_names_its_place() {
        let error = parse::<Outer>("inner = [\n  ü").unwrap_err();
        assert_eq!(error.position.map(|position| position.line), Some(2));
        assert!(error.path.is_empty());
    }

    /// Checks that a key cannot forge a line.
    #[test]
    fn keys_that_need_quotes_have_them() {
        let steps = ["a-1", "", "b c", "d\n\"e"].map(|key| Step::Key(key.to_owned()));
        assert_eq!(dotted(&steps), "a-1.\"\".\"b c\".\"d\\n\\\"e\"");
    }

    #[test]
    fn an_unknown_key_names_its_place() {
        let error = parse::<Outer>("inner = []\nother = 1").unwrap_err();
        assert_eq!(error.position, Some(Position { line: 2, column: 1 }));
        assert!(error.message.starts_with("unknown field `other`"), "{}", error.message);
    }
}
