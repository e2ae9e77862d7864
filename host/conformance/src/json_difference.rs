//! Finds the first difference between two JSON values.

use std::fmt::{self, Display, Formatter};

use relayer_rest_common::text::{truncate, truncate_at};
use serde_json::{Map, Value};

/// The maximum length of a field's name in a message, in characters.
const MAX_NAME: usize = 100;

/// A difference, at a JSON pointer (RFC 6901).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonDifference {
    pointer: String,
    message: String,
}

type Same = Result<(), JsonDifference>;

/// Compares two values. The order of fields and of elements counts.
pub(super) fn same(expected: &Value, found: &Value) -> Same {
    match (expected, found) {
        (Value::Object(fields), Value::Object(_)) => {
            same_fields(expected, found)?;
            fields.iter().try_for_each(|(name, expected)| {
                same(expected, &found[name]).map_err(|difference| difference.under(name))
            })
        }
        (Value::Array(expected), Value::Array(found)) => {
            same_lists(expected.iter().enumerate(), found.iter().enumerate())
        }
        _ if expected == found => Ok(()),
        _ => Err(JsonDifference::new(Some(expected), Some(found))),
    }
}

/// Compares the types of values.
pub(super) fn same_kind(expected: &Value, found: &Value) -> Same {
    if std::mem::discriminant(expected) == std::mem::discriminant(found) {
        return Ok(());
    }
    Err(JsonDifference::new(Some(expected), Some(found)))
}

/// Compares the names of the fields of objects, and their order.
pub(super) fn same_fields(expected: &Value, found: &Value) -> Same {
    same_names(expected, found)?;
    match names(expected).zip(names(found)).find(|(expected, found)| expected != found) {
        Some((expected, found)) => {
            let quote = |name| Value::from(truncate_at(name, MAX_NAME));
            let message =
                format!("expected the field {}, got {} before it", quote(expected), quote(found));
            Err(JsonDifference { pointer: String::new(), message })
        }
        None => Ok(()),
    }
}

/// Compares the names of the fields of objects, in any order.
pub(super) fn same_names(expected: &Value, found: &Value) -> Same {
    same_kind(expected, found)?;
    let different = names(expected)
        .chain(names(found))
        .find(|name| expected.get(*name).is_none() || found.get(*name).is_none());
    different.map_or(Ok(()), |name| {
        Err(JsonDifference::new(expected.get(name), found.get(name)).under(name))
    })
}

fn names(object: &Value) -> impl Iterator<Item = &str> {
    object.as_object().into_iter().flat_map(Map::keys).map(String::as_str)
}

/// Compares the elements of two arrays in the order of their keys instead of their own.
pub(super) fn same_elements<'a, K: Ord>(
    expected: &'a Value,
    found: &'a Value,
    key: impl Fn(&'a Value) -> K,
) -> Same {
    let (Value::Array(expected), Value::Array(found)) = (expected, found) else {
        return same(expected, found);
    };
    let sorted = |values: &'a [Value]| {
        let mut values: Vec<_> = values.iter().enumerate().collect();
        values.sort_by_key(|(_, value)| key(value));
        values.into_iter()
    };
    same_lists(sorted(expected), sorted(found))
}

/// Compares elements, given with their indexes in the arrays.
fn same_lists<'a>(
    mut expected: impl Iterator<Item = (usize, &'a Value)>,
    mut found: impl Iterator<Item = (usize, &'a Value)>,
) -> Same {
    loop {
        let (index, same) = match (expected.next(), found.next()) {
            (Some((_, expected)), Some((index, found))) => (index, same(expected, found)),
            (Some((index, expected)), None) => {
                (index, Err(JsonDifference::new(Some(expected), None)))
            }
            (None, Some((index, found))) => (index, Err(JsonDifference::new(None, Some(found)))),
            (None, None) => return Ok(()),
        };
        same.map_err(|difference| difference.under(index))?;
    }
}

impl JsonDifference {
    /// Creates a difference between two values, of which one may be missing.
    pub(super) fn new(expected: Option<&Value>, found: Option<&Value>) -> Self {
        let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Self::show);
        let message = format!("expected {}, got {}", show(expected), show(found));
        Self { pointer: String::new(), message }
    }

    /// Returns a value as it appears in messages.
    pub(super) fn show(value: &Value) -> String {
        truncate(&value.to_string())
    }

    /// Returns the difference as seen from the value that has this one as a field or an
    /// element.
    pub(super) fn under(self, name: impl Display) -> Self {
        let name = truncate_at(&name.to_string(), MAX_NAME).replace('~', "~0").replace('/', "~1");
        Self { pointer: format!("/{name}{}", self.pointer), ..self }
    }
}

impl Display for JsonDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", truncate(&self.pointer))?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::{JsonDifference, same, same_elements};
    use serde_json::{Value, json};

    fn text(same: Result<(), JsonDifference>) -> String {
        same.map_or_else(|difference| difference.to_string(), |()| "same".to_owned())
    }

    #[test]
    fn the_first_difference_has_a_pointer_and_both_values() {
        for (expected, found, message) in [
            (json!({"a": [1, 2]}), json!({"a": [1, 2]}), "same"),
            (json!({"a": {"b": 1}}), json!({"a": {"b": null}}), "/a/b: expected 1, got null"),
            (json!({"a": [1]}), json!({"a": [1.0]}), "/a/0: expected 1, got 1.0"),
            (json!({"a": 1}), json!({}), "/a: expected 1, got nothing"),
            (json!([]), json!([[]]), "/0: expected nothing, got []"),
            (json!([1]), json!([]), "/0: expected 1, got nothing"),
            (json!({}), json!({"a/b~": 1}), "/a~1b~0: expected nothing, got 1"),
            (
                json!({"a": {"b": 1, "c": 1}}),
                json!({"a": {"c": 1, "b": 1}}),
                "/a: expected the field \"b\", got \"c\" before it",
            ),
            (json!(1), json!("1"), "expected 1, got \"1\""),
        ] {
            assert_eq!(text(same(&expected, &found)), message);
        }
    }

    #[test]
    fn elements_can_be_compared_in_any_order() {
        let id = |value: &Value| value["id"].as_u64();
        let expected = json!([{"id": 1, "a": 1}, {"id": 2, "a": 2}]);
        for (found, message) in [
            (json!([{"id": 2, "a": 2}, {"id": 1, "a": 1}]), "same"),
            (json!([{"id": 2, "a": 3}, {"id": 1, "a": 1}]), "/0/a: expected 2, got 3"),
            (json!([{"id": 1, "a": 1}]), "/1: expected {\"id\":2,\"a\":2}, got nothing"),
            (json!([{"id": 2, "a": 2}]), "/0/id: expected 1, got 2"),
            (json!({}), "expected [{\"id\":1,\"a\":1},{\"id\":2,\"a\":2}], got {}"),
        ] {
            assert_eq!(text(same_elements(&expected, &found, id)), message);
        }
    }

    #[test]
    fn a_message_is_short_for_any_values() {
        let name = "n".repeat(10_000);
        let mut found = json!("v".repeat(1 << 20));
        for _ in 0..100 {
            found = json!({ &name: found });
        }
        let message = text(same(&json!({}), &found));
        assert!(message.len() < 2_000, "{}", message.len());
        let mut expected = json!(1);
        for _ in 0..100 {
            expected = json!({ &name: expected });
        }
        let message = text(same(&expected, &found));
        assert!(message.len() < 2_000, "{}", message.len());
    }
}
