//! What is the same question.

use http::{HeaderMap, HeaderName, Method};
use quick_cache::Equivalent;

use crate::module::{Digest, ModuleRequest};

/// A question to a module, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    module: Digest,
    method: Method,
    target: Box<str>,
    headers: Box<[u8]>,
}

/// A question to a module, as it is asked. It has the hash of its [`Key`]:
/// both have the same fields in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Question<'a> {
    module: Digest,
    method: &'a Method,
    target: &'a str,
    headers: &'a [u8],
}

impl<'a> Question<'a> {
    /// A request, without regard to its headers.
    pub(super) fn new(module: &Digest, request: &'a ModuleRequest) -> Self {
        let target = request.target.as_str();
        Self { module: *module, method: &request.method, target, headers: &[] }
    }

    /// The same with these headers, as [`values`] has them.
    pub(super) fn with(self, headers: &'a [u8]) -> Self {
        Self { headers, ..self }
    }

    /// What keeps nothing of the request alive.
    pub(super) fn key(&self) -> Key {
        Key {
            module: self.module,
            method: self.method.clone(),
            target: self.target.into(),
            headers: self.headers.into(),
        }
    }
}

impl Equivalent<Key> for Question<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.question()
    }
}

impl Key {
    fn question(&self) -> Question<'_> {
        let Self { module, method, target, headers } = self;
        Question { module: *module, method, target, headers }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.headers.len()
    }
}

/// What a request says in these headers, told apart from anything else that a
/// request could say in them.
pub(super) fn values(names: &[HeaderName], headers: &HeaderMap) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        let values = headers.get_all(name);
        all.extend(values.iter().count().to_le_bytes());
        for value in values {
            all.extend(value.len().to_le_bytes());
            all.extend(value.as_bytes());
        }
    }
    all
}
