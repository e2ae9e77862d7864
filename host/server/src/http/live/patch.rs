//! The difference between two JSON documents, as a patch.
//!
//! It is a JSON Patch (RFC 6902), which is an array, or a JSON Merge Patch (RFC 7386), which
//! is an object here: the shorter one of the two. The documents are compared level by level, and
//! only parts whose texts differ are parsed. Values are copied as texts, so that numbers keep their
//! digits.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The depth from which on values are compared as texts.
const MAX_DEPTH: usize = 32;

/// The memory of an item of an array and of a member of an object at most, in bytes.
const ITEM: usize = 48;
const MEMBER: usize = 136;

/// A value, parsed to one level.
enum Level<'a> {
    Object(Members<'a>),
    Array(Vec<&'a RawValue>),
    Other,
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The memory of each thread to compare documents, in bytes.
const OF_THREAD: usize = 256 << 10;

/// Returns the memory that it takes at most to compare two documents, in bytes, besides that of the
/// thread.
pub(super) fn memory(before: &[u8], now: &[u8]) -> usize {
    let of_document = |text: &[u8]| {
        let nodes = text.iter().map(|byte| match byte {
            b',' | b'[' | b'{' => ITEM,
            b':' => MEMBER,
            _ => 0,
        });
        nodes.sum::<usize>()
    };
    // With the names of the members and of the path, and the patches.
    let both = of_document(before) + of_document(now) + 2 * before.len() + 4 * now.len();
    both.saturating_sub(OF_THREAD)
}

/// Returns the patch from a document to another one, if it is shorter than half of that. Returns
/// `None` as well if one of them is not JSON.
pub(super) fn between(before: &[u8], now: &[u8]) -> Option<String> {
    let most = (now.len() / 2).checked_sub(1)?;
    let before: &RawValue = serde_json::from_slice(before).ok()?;
    let now: &RawValue = serde_json::from_slice(now).ok()?;
    let patches = [json_patch(before, now, most), merge_patch(before, now, most)];
    // The first of equal ones is the JSON Patch.
    patches.into_iter().flatten().min_by_key(String::len)
}

/// A text with a maximum length.
struct Text {
    text: String,
    most: usize,
}

impl Text {
    /// Adds a part; returns `None` if the text becomes too long.
    fn add(&mut self, part: &str) -> Option<()> {
        if self.text.len() + part.len() > self.most {
            return None;
        }
        self.text.push_str(part);
        Some(())
    }

    fn add_string(&mut self, string: &str) -> Option<()> {
        self.add(&serde_json::to_string(string).ok()?)
    }
}

impl<'a> Level<'a> {
    /// Parses a value; returns `None` if a name is not a text.
    fn of(value: &'a RawValue, depth: usize) -> Option<Self> {
        let text = value.get();
        if depth > MAX_DEPTH {
            return Some(Self::Other);
        }
        if text.starts_with('{') {
            return serde_json::from_str(text).ok().map(Self::Object);
        }
        if text.starts_with('[') {
            return serde_json::from_str(text).ok().map(Self::Array);
        }
        Some(Self::Other)
    }
}

fn is_same(one: &RawValue, other: &RawValue) -> bool {
    one.get() == other.get()
}

/// Returns the JSON Patch, unless it is too long.
fn json_patch(before: &RawValue, now: &RawValue, most: usize) -> Option<String> {
    let text = Text { text: String::new(), most };
    let mut operations = Operations { text, path: String::new(), depth: 0 };
    operations.text.add("[")?;
    operations.add_difference(before, now)?;
    operations.text.add("]")?;
    Some(operations.text.text)
}

/// The operations of a JSON Patch so far, and the place in the document. Each operation has its
/// whole path, so a patch could be far longer than the documents.
struct Operations {
    text: Text,
    path: String,
    depth: usize,
}

impl Operations {
    fn add_difference(&mut self, before: &RawValue, now: &RawValue) -> Option<()> {
        if is_same(before, now) {
            return Some(());
        }
        match (Level::of(before, self.depth)?, Level::of(now, self.depth)?) {
            (Level::Object(before), Level::Object(now)) => self.add_members(&before, &now),
            (Level::Array(before), Level::Array(now)) => self.add_items(&before, &now),
            _ => self.add("replace", Some(now)),
        }
    }

    fn add_members(&mut self, before: &Members<'_>, now: &Members<'_>) -> Option<()> {
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            self.at(name, |this| this.add("remove", None))?;
        }
        for (name, value) in now {
            self.at(name, |this| match before.get(name) {
                Some(before) => this.add_difference(before, value),
                None => this.add("add", Some(value)),
            })?;
        }
        Some(())
    }

    /// Adds the difference of two arrays between their equal starts and ends.
    fn add_items(&mut self, before: &[&RawValue], now: &[&RawValue]) -> Option<()> {
        let is_same_pair = |(before, now): &(&&RawValue, &&RawValue)| is_same(before, now);
        let start = before.iter().zip(now).take_while(is_same_pair).count();
        let (before, now) = (&before[start..], &now[start..]);
        let end = before.iter().rev().zip(now.iter().rev()).take_while(is_same_pair).count();
        let (before, now) = (&before[..before.len() - end], &now[..now.len() - end]);
        let both = before.len().min(now.len());
        for (place, (before, now)) in before.iter().zip(now).enumerate() {
            self.at(&(start + place).to_string(), |this| this.add_difference(before, now))?;
        }
        for (place, value) in now.iter().enumerate().skip(both) {
            self.at(&(start + place).to_string(), |this| this.add("add", Some(value)))?;
        }
        // The items after it move to this place.
        for _ in both..before.len() {
            self.at(&(start + both).to_string(), |this| this.add("remove", None))?;
        }
        Some(())
    }

    fn at(&mut self, name: &str, add: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        self.depth += 1;
        add(self)?;
        self.depth -= 1;
        self.path.truncate(length);
        Some(())
    }

    fn add(&mut self, operation: &str, value: Option<&RawValue>) -> Option<()> {
        let Self { text, path, .. } = self;
        if text.text.len() > 1 {
            text.add(",")?;
        }
        text.add(&format!(r#"{{"op":"{operation}","path":"#))?;
        text.add_string(path)?;
        if let Some(value) = value {
            text.add(r#","value":"#)?;
            text.add(value.get())?;
        }
        text.add("}")
    }
}

/// Returns the merge patch from an object to another one, unless it is too long. There is none if a
/// member becomes null.
fn merge_patch(before: &RawValue, now: &RawValue, most: usize) -> Option<String> {
    let (Level::Object(before), Level::Object(now)) = (Level::of(before, 0)?, Level::of(now, 0)?)
    else {
        return None;
    };
    let mut text = Text { text: String::new(), most };
    add_merge(&mut text, &before, &now, 1)?;
    Some(text.text)
}

fn add_merge(text: &mut Text, before: &Members<'_>, now: &Members<'_>, depth: usize) -> Option<()> {
    text.add("{")?;
    let mut is_first = true;
    let mut add_name = |text: &mut Text, name: &str| {
        if !std::mem::replace(&mut is_first, false) {
            text.add(",")?;
        }
        text.add_string(name)?;
        text.add(":")
    };
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        add_name(text, name)?;
        text.add("null")?;
    }
    for (name, value) in now {
        let known = before.get(name);
        if known.is_some_and(|before| is_same(before, value)) {
            continue;
        }
        add_name(text, name)?;
        if let Some(before) = known
            && let Level::Object(before) = Level::of(before, depth)?
            && let Level::Object(now) = Level::of(value, depth)?
        {
            add_merge(text, &before, &now, depth + 1)?;
            continue;
        }
        if has_null_member(value, depth)? {
            return None;
        }
        text.add(value.get())?;
    }
    text.add("}")
}

/// Returns whether merging a value would remove a member instead of setting it to null.
fn has_null_member(value: &RawValue, depth: usize) -> Option<bool> {
    if value.get() == "null" {
        return Some(true);
    }
    if !value.get().starts_with('{') {
        return Some(false);
    }
    match Level::of(value, depth)? {
        Level::Object(members) => {
            for value in members.values() {
                if has_null_member(value, depth + 1)? {
                    return Some(true);
                }
            }
            Some(false)
        }
        // Below the maximum depth, it is not known.
        Level::Array(_) | Level::Other => Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, RawValue, between, json_patch};
    use serde_json::{Value, json};

    /// Spaces that make a document longer than twice any patch.
    const SPACES: usize = 4_096;

    /// Returns the patch between two documents, after it was applied by other code.
    fn patch(before: &Value, now: &Value) -> String {
        let longer = format!("{now}{}", " ".repeat(SPACES));
        let text = between(before.to_string().as_bytes(), longer.as_bytes()).unwrap();
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
    fn documents_that_are_not_json_have_no_patch() {
        for (before, now) in [
            ("1", "x"),
            ("{", "1"),
            (r#"{"\ud800":1}"#, r#"{"\ud800":2}"#),
            (r#"{"a":{"\ud800":1}}"#, r#"{"a":{"b":1}}"#),
        ] {
            let now = format!("{now}{}", " ".repeat(SPACES));
            assert_eq!(between(before.as_bytes(), now.as_bytes()), None, "{before} {now}");
        }
    }

    #[test]
    fn numbers_keep_their_digits_and_texts_their_form() {
        for (before, now, expected) in [
            ("1e20", "100000000000000000001", "100000000000000000001"),
            ("1.10", "1.1", "1.1"),
            ("1", "1e999", "1e999"),
            (r#""a""#, r#""\u0061""#, r#""\u0061""#),
        ] {
            let [before, now] = [before, now].map(|value| format!("[{value}, 2]"));
            let now = format!("{now}{}", " ".repeat(SPACES));
            let patch = between(before.as_bytes(), now.as_bytes()).unwrap();
            assert_eq!(patch, format!(r#"[{{"op":"replace","path":"/0","value":{expected}}}]"#));
        }
    }

    #[test]
    fn documents_of_any_depth_are_compared() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            for depth in [MAX_DEPTH, MAX_DEPTH + 2, 100_000] {
                let document = |item: u32| {
                    format!(
                        "{}{item}{}{}",
                        open.repeat(depth),
                        close.repeat(depth),
                        " ".repeat(SPACES)
                    )
                };
                let (before, now) = (document(1), document(2));
                let patch = between(before.as_bytes(), now.as_bytes());
                assert_eq!(patch.is_some(), depth < 100_000, "{depth} of {open}");
            }
        }
    }

    #[test]
    fn a_patch_is_shorter_than_half_of_the_document() {
        let before = r#"{"a":1,"b":[1]}"#;
        // The merge patch has 22 bytes, the other one more.
        for (length, expected) in [(46, Some(r#"{"a":"x","c":"yyyyyy"}"#)), (45, None)] {
            let now = format!(r#"{{"a":"x","b":[1],"c":"yyyyyy"}}{}"#, " ".repeat(length - 30));
            let patch = between(before.as_bytes(), now.as_bytes());
            assert_eq!(patch.as_deref(), expected, "{length}");
        }
    }

    /// Each operation has the path of its value.
    #[test]
    fn a_patch_that_is_too_long_is_not_made() {
        let document = |item: u32| json!({"a".repeat(1_000): vec![item; 1_000]}).to_string();
        let (before, now) = (document(0), document(1));
        let raw = |text| serde_json::from_str::<&RawValue>(text).unwrap();
        assert_eq!(json_patch(raw(&before), raw(&now), 50_000), None);
        assert_eq!(between(before.as_bytes(), now.as_bytes()), None);
    }
}
