//! What is the same question.

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method};
use quick_cache::Equivalent;

use crate::module::{Digest, ModuleRequest, Reads};

/// A request, as a module is asked it: HEAD as GET.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path and the query.
    pub target: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl Question<'_> {
    /// The same question to keep, in memory of its own, with those headers only
    /// that were read.
    pub(crate) fn kept(&self, reads: &Reads) -> ModuleRequest {
        let target = PathAndQuery::try_from(self.target);
        let mut headers = HeaderMap::new();
        for (name, values) in reads.header_values() {
            for value in values {
                headers.append(name, value.clone());
            }
        }
        ModuleRequest {
            method: self.method.clone(),
            target: target.unwrap_or(PathAndQuery::from_static("/")),
            headers,
        }
    }
}

impl<'a> From<&'a ModuleRequest> for Question<'a> {
    fn from(request: &'a ModuleRequest) -> Self {
        let ModuleRequest { method, target, headers } = request;
        Self { method, target: target.as_str(), headers }
    }
}

/// What an answer is kept under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    module: Digest,
    method: Method,
    target: Box<str>,
    /// What is said in the headers that the answer depends on, where there are
    /// any. Not an empty text: to compare two of these, neither of which has an
    /// address, costs some processors as much as all the rest.
    headers: Option<Box<[u8]>>,
}

/// A key that is made of what is there. It has the hash of a [`Key`]: both
/// have the same fields in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct KeyRef<'a> {
    module: Digest,
    method: &'a Method,
    target: &'a str,
    headers: Option<&'a [u8]>,
}

impl<'a> KeyRef<'a> {
    /// The key of a question to a module, without regard to its headers.
    pub(super) fn new(module: Digest, question: Question<'a>) -> Self {
        let Question { method, target, .. } = question;
        Self { module, method, target, headers: None }
    }

    /// The same with these headers, as [`values`] has them.
    pub(super) fn with(self, headers: &'a [u8]) -> Self {
        Self { headers: Some(headers), ..self }
    }

    /// What keeps nothing of the request alive.
    pub(super) fn key(&self) -> Key {
        Key {
            module: self.module,
            method: self.method.clone(),
            target: self.target.into(),
            headers: self.headers.map(Into::into),
        }
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        let Key { module, method, target, headers } = key;
        *self == KeyRef { module: *module, method, target, headers: headers.as_deref() }
    }
}

impl Key {
    pub(super) fn module(&self) -> Digest {
        self.module
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, |headers| headers.len());
        size_of::<Self>() + self.method.as_str().len() + self.target.len() + headers
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
