//! The difference between two JSON documents, as a patch.
//!
//! It is a JSON Patch (RFC 6902), which is an array, or a JSON Merge Patch (RFC 7386), which
//! is an object here: the shorter one of the two.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// The numbers that a floating-point number represents exactly end here.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the patch from a document to another one; `None` if one of them is not JSON, or has
/// numbers that cannot be compared.
pub(super) fn between(before: &[u8], now: &[u8]) -> Option<String> {
    let before: Value = serde_json::from_slice(before).ok()?;
    let now: Value = serde_json::from_slice(now).ok()?;
    if !is_exact(&before) || !is_exact(&now) {
        return None;
    }
    let mut operations = Operations::default();
    operations.add_difference(&before, &now);
    let patch = format!("[{}]", operations.list.join(","));
    let merge = match (&before, &now) {
        (Value::Object(before), Value::Object(now)) => merge_patch(before, now),
        _ => None,
    };
    let merge = merge.map(|merge| Value::Object(merge).to_string());
    match merge {
        Some(merge) if merge.len() < patch.len() => Some(merge),
        _ => Some(patch),
    }
}

/// Returns whether all numbers are represented exactly.
fn is_exact(value: &Value) -> bool {
    let is_exact_number = |number: &Number| {
        !number.is_f64() || number.as_f64().is_some_and(|it| it.abs() < MAX_EXACT)
    };
    match value {
        Value::Number(number) => is_exact_number(number),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The operations of a JSON Patch so far, and the place in the document.
#[derive(Default)]
struct Operations {
    list: Vec<String>,
    path: String,
}

impl Operations {
    fn add_difference(&mut self, before: &Value, now: &Value) {
        match (before, now) {
            _ if before == now => {}
            (Value::Object(before), Value::Object(now)) => {
                self.add_difference_of_objects(before, now);
            }
            (Value::Array(before), Value::Array(now)) => self.add_difference_of_arrays(before, now),
            _ => self.add("replace", Some(now)),
        }
    }

    fn add_difference_of_objects(&mut self, before: &Map<String, Value>, now: &Map<String, Value>) {
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            self.at(name, |this| this.add("remove", None));
        }
        for (name, value) in now {
            self.at(name, |this| match before.get(name) {
                Some(before) => this.add_difference(before, value),
                None => this.add("add", Some(value)),
            });
        }
    }

    /// Adds the difference of two arrays between their equal starts and ends.
    fn add_difference_of_arrays(&mut self, before: &[Value], now: &[Value]) {
        let start = before.iter().zip(now).take_while(|(before, now)| before == now).count();
        let (before, now) = (&before[start..], &now[start..]);
        let ends = before.iter().rev().zip(now.iter().rev());
        let end = ends.take_while(|(before, now)| before == now).count();
        let (before, now) = (&before[..before.len() - end], &now[..now.len() - end]);
        let both = before.len().min(now.len());
        for (place, (before, now)) in before.iter().zip(now).enumerate() {
            self.at(&(start + place).to_string(), |this| this.add_difference(before, now));
        }
        for (place, value) in now.iter().enumerate().skip(both) {
            self.at(&(start + place).to_string(), |this| this.add("add", Some(value)));
        }
        // The items after it move to this place.
        for _ in both..before.len() {
            self.at(&(start + both).to_string(), |this| this.add("remove", None));
        }
    }

    fn at(&mut self, name: &str, add: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        add(self);
        self.path.truncate(length);
    }

    fn add(&mut self, operation: &str, value: Option<&Value>) {
        let path = Value::from(&*self.path);
        let mut text = format!(r#"{{"op":"{operation}","path":{path}"#);
        if let Some(value) = value {
            // Writing to a string cannot fail.
            write!(text, r#","value":{value}"#).ok();
        }
        text.push('}');
        self.list.push(text);
    }
}

/// Returns the merge patch from an object to another one; `None` if there is none, because a
/// member becomes null.
fn merge_patch(
    before: &Map<String, Value>,
    now: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let removed = before.keys().filter(|name| !now.contains_key(*name));
    let mut patch: Map<_, _> = removed.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in now {
        let change = match (before.get(name), value) {
            (Some(before), value) if before == value => continue,
            (Some(Value::Object(before)), Value::Object(now)) => {
                Value::Object(merge_patch(before, now)?)
            }
            (_, value) if has_null_member(value) => return None,
            (_, value) => value.clone(),
        };
        patch.insert(name.clone(), change);
    }
    Some(patch)
}

/// Returns whether merging a value would remove a member instead of setting it to null.
fn has_null_member(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(has_null_member),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::between;
    use serde_json::{Value, json};

    /// Returns the patch between two documents, after it was applied by other code.
    fn patch(before: &Value, now: &Value) -> String {
        let text = between(before.to_string().as_bytes(), now.to_string().as_bytes()).unwrap();
        let patch: Value = serde_json::from_str(&text).unwrap();
        let mut patched = before.clone();
        if patch.is_array() {
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut patched, &patch).unwrap();
        } else {
            json_patch::merge(&mut patched, &patch);
        }
        assert_eq!(patched, *now, "{before} {text}");
        text
    }

    #[test]
    fn a_patch_has_the_difference_only() {
        for (before, now, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), r#"{"b":3}"#),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), r#"{"b":null}"#),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), r#"{"a":{"c":3}}"#),
            (json!([1, 2, 3]), json!([1, 4, 3]), r#"[{"op":"replace","path":"/1","value":4}]"#),
            (json!([1, 3]), json!([1, 2, 3]), r#"[{"op":"add","path":"/1","value":2}]"#),
            (json!([1, 2, 3]), json!([1, 3]), r#"[{"op":"remove","path":"/1"}]"#),
            (
                json!({"a": "x".repeat(99), "b": 1}),
                json!({"a": "x".repeat(99), "b": null}),
                r#"[{"op":"replace","path":"/b","value":null}]"#,
            ),
            (
                json!({"a/b": {"~": [1, 2, 3, 4, 5, 6]}}),
                json!({"a/b": {"~": [1, 2, 3, 4, 5, 7]}}),
                r#"{"a/b":{"~":[1,2,3,4,5,7]}}"#,
            ),
            (json!({"a": 1}), json!({"a": 1}), "[]"),
            (json!(1), json!("a"), r#"[{"op":"replace","path":"","value":"a"}]"#),
        ] {
            assert_eq!(patch(&before, &now), expected, "{before} {now}");
        }
    }

    #[test]
    fn every_patch_makes_one_document_the_other() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..5_000 {
            let before = document(&mut random, 4);
            let now = if random.bool() {
                document(&mut random, 4)
            } else {
                changed(&mut random, &before)
            };
            patch(&before, &now);
        }
    }

    fn document(random: &mut fastrand::Rng, depth: u32) -> Value {
        let name = |random: &mut fastrand::Rng| ["a", "b/", "~c", ""][random.usize(..4)].to_owned();
        match random.u32(..if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => random.bool().into(),
            2 => random.u64(..3).into(),
            3 => ["", "x", "\u{1F600}\n\"\\"][random.usize(..3)].into(),
            4 => {
                let count = random.usize(..5);
                (0..count).map(|_| document(random, depth - 1)).collect()
            }
            _ => {
                let count = random.usize(..4);
                let member = |_| (name(random), document(random, depth - 1));
                Value::Object((0..count).map(member).collect())
            }
        }
    }

    /// Returns a document with a small change.
    fn changed(random: &mut fastrand::Rng, value: &Value) -> Value {
        let mut value = value.clone();
        match &mut value {
            Value::Array(items) if !items.is_empty() => match random.u32(..3) {
                0 => drop(items.remove(random.usize(..items.len()))),
                1 => items.insert(random.usize(..=items.len()), document(random, 1)),
                _ => {
                    let place = random.usize(..items.len());
                    items[place] = changed(random, &items[place]);
                }
            },
            Value::Object(members) if !members.is_empty() => {
                let name = members.keys().nth(random.usize(..members.len())).unwrap().clone();
                let change = changed(random, &members[&name]);
                members.insert(name, change);
            }
            other => *other = document(random, 1),
        }
        value
    }

    #[test]
    fn documents_that_cannot_be_compared_have_no_patch() {
        for (before, now) in [
            ("1", "x"),
            ("{", "1"),
            ("[100000000000000000000]", "[100000000000000000001]"),
            ("1", "1e300"),
        ] {
            assert_eq!(between(before.as_bytes(), now.as_bytes()), None, "{before} {now}");
        }
        assert!(between(b"[18446744073709551615]", b"[18446744073709551614]").is_some());
    }
}
