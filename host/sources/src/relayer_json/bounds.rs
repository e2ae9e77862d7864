//! Bounds on the parts of a response that are kept, and lists that are read up to a
//! bound.
//!
//! Memory use is proportional to the length of a response; these bounds further limit the
//! parts that are kept. All are far above the sizes of real relayers.

use std::collections::BTreeMap;
use std::fmt::{self, Arguments, Formatter};
use std::marker::PhantomData;

use relayer_rest_common::text::for_log;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::UnreadField;

/// The maximum length of any text in a response, in bytes as written. A response with a
/// longer text is rejected before it is parsed, because parsers copy and repeat texts.
pub(super) const MAX_TEXT: usize = 64 << 10;

/// The maximum length of a name or identifier that is kept, in bytes.
pub(super) const MAX_NAME: usize = 1 << 10;

/// The maximum number of chains, in `/chains` and among the connected ones of `/state`.
pub(super) const MAX_CHAINS: usize = 1000;

/// The maximum size of a chain's configuration, in bytes as written and without the
/// fields that are left out.
pub(super) const MAX_CHAIN: usize = 64 << 10;

/// The maximum number of fields of a chain that are read.
pub(super) const MAX_CHAIN_FIELDS: usize = 256;

/// The maximum number of workers. With this number and [`MAX_STATE`], the bundled module
/// can respond with the state under the default limits.
pub(super) const MAX_WORKERS: usize = 150_000;

/// The maximum size of the workers as `/state` shows them, in bytes of JSON. Fields of
/// unknown kinds count more, because modules need more memory for them.
pub(super) const MAX_STATE: usize = 16 << 20;

/// The maximum number of fields that are kept of one object of an unknown kind.
pub(super) const MAX_FIELDS: usize = 64;

/// The maximum number of such fields in one state, without the first few of each object.
pub(super) const MAX_ALL_FIELDS: usize = 500_000;

/// The maximum number of names that workers share with each other.
pub(super) const MAX_SHARED_NAMES: usize = 1024;

/// The maximum number of components in `/version`.
pub(super) const MAX_COMPONENTS: usize = 100;

/// The maximum number of unread fields of one response that are named.
const MAX_UNREAD: usize = 100;

/// Collects the fields that are left out, each once and up to a bound.
#[derive(Default)]
pub(super) struct Unread {
    fields: BTreeMap<String, String>,
    has_more: bool,
}

impl Unread {
    /// Adds a field. Both texts are escaped and truncated.
    pub(super) fn add(&mut self, field: Arguments<'_>, message: &str) {
        if self.fields.len() >= MAX_UNREAD {
            self.has_more = true;
            return;
        }
        self.fields.entry(for_log(&field.to_string())).or_insert_with(|| for_log(message));
    }

    /// Returns the fields, ordered by name.
    pub(super) fn into_fields(self) -> Vec<UnreadField> {
        let more = self.has_more.then(|| UnreadField {
            field: "(others)".to_owned(),
            message: format!("more than {MAX_UNREAD} fields cannot be shown"),
        });
        let named = self.fields.into_iter().map(|(field, message)| UnreadField { field, message });
        named.chain(more).collect()
    }
}

/// The first `MAX` elements of a list. The others are skipped.
pub(super) struct FirstOf<T, const MAX: usize> {
    pub(super) elements: Vec<T>,
    pub(super) has_more: bool,
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for FirstOf<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstOfVisitor(PhantomData))
    }
}

struct FirstOfVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for FirstOfVisitor<T, MAX> {
    type Value = FirstOf<T, MAX>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < MAX {
            match seq.next_element()? {
                Some(element) => elements.push(element),
                None => return Ok(FirstOf { elements, has_more: false }),
            }
        }
        let has_more = skip_rest(&mut seq)?;
        Ok(FirstOf { elements, has_more })
    }
}

/// Skips the other elements of a list, and returns whether there were any.
pub(super) fn skip_rest<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<bool, A::Error> {
    let mut skipped = false;
    while seq.next_element::<IgnoredAny>()?.is_some() {
        skipped = true;
    }
    Ok(skipped)
}
