//! The cache key of a request.

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Method};
use quick_cache::Equivalent;
use relayer_rest_sandbox::{Digest, GuestRequest, ReadSet, visible_headers};

/// A request as the module gets it: HEAD as GET.
#[derive(Debug, Clone, Copy)]
pub struct RequestRef<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path.
    pub path: &'a str,
    /// The query, without the `?`.
    pub query: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// Whether it has a body.
    pub has_body: bool,
}

impl RequestRef<'_> {
    /// Returns a copy of the request in memory of its own, with only the headers that
    /// were read, and with the query only if it was read.
    pub(crate) fn recorded(&self, reads: &ReadSet) -> GuestRequest {
        let target = match reads.query() {
            Some(query) => PathAndQuery::try_from(format!("{}?{query}", self.path)),
            None => PathAndQuery::try_from(self.path),
        };
        let mut headers = HeaderMap::new();
        for (name, values) in reads.header_values() {
            for value in values {
                headers.append(name, value.clone());
            }
        }
        let target = target.unwrap_or(PathAndQuery::from_static("/"));
        GuestRequest::new(self.method.clone(), target, headers)
    }
}

impl<'a> From<&'a GuestRequest> for RequestRef<'a> {
    fn from(request: &'a GuestRequest) -> Self {
        let GuestRequest { method, target, headers, body, .. } = request;
        let has_body = !body.is_empty();
        Self { method, path: target.path(), query: target.query(), headers, has_body }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    module: Digest,
    method: Method,
    path: Box<str>,
    /// The query and the headers that the response depends on, as [`Inputs`] encodes
    /// them; `None` if it depends on neither. Not an empty slice, because some processors
    /// take as long to compare two empty slices, which have no address, as to compare all
    /// the other fields.
    inputs: Option<Box<[u8]>>,
}

/// A borrowed [`CacheKey`] with an equal hash: both have the same fields in the same
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheKeyRef<'a> {
    module: Digest,
    method: &'a Method,
    path: &'a str,
    inputs: Option<&'a [u8]>,
}

impl<'a> CacheKeyRef<'a> {
    /// Returns the key of a request to a module, without its query and headers.
    pub(super) fn new(module: Digest, request_ref: RequestRef<'a>) -> Self {
        let RequestRef { method, path, .. } = request_ref;
        Self { module, method, path, inputs: None }
    }

    /// Returns the same key with these inputs, as [`Inputs::encode`] returns them.
    pub(super) fn with(self, inputs: &'a [u8]) -> Self {
        Self { inputs: Some(inputs), ..self }
    }

    /// Returns an owned key, which keeps no memory of the request alive.
    pub(super) fn key(&self) -> CacheKey {
        CacheKey {
            module: self.module,
            method: self.method.clone(),
            path: self.path.into(),
            inputs: self.inputs.map(Into::into),
        }
    }
}

impl Equivalent<CacheKey> for CacheKeyRef<'_> {
    fn equivalent(&self, key: &CacheKey) -> bool {
        let CacheKey { module, method, path, inputs } = key;
        *self == CacheKeyRef { module: *module, method, path, inputs: inputs.as_deref() }
    }
}

impl CacheKey {
    pub(super) fn module(&self) -> Digest {
        self.module
    }

    /// Returns the size of the key in bytes.
    pub(super) fn size(&self) -> usize {
        let inputs = self.inputs.as_ref().map_or(0, |inputs| inputs.len());
        size_of::<Self>() + self.method.as_str().len() + self.path.len() + inputs
    }
}

/// The parts of a request, besides its method and path, that the responses under a key
/// depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inputs {
    /// Whether the responses depend on the query.
    query: bool,
    /// Whether they depend on all headers that modules can see.
    all_headers: bool,
    headers: Box<[HeaderName]>,
}

impl Inputs {
    /// Returns these inputs and the recorded ones.
    pub(super) fn and(&self, reads: &ReadSet) -> Self {
        // Headers that were read all at once are not read one by one.
        let new = reads.single_headers().filter(|name| !self.headers.contains(name));
        let headers = self.headers.iter().chain(new).cloned().collect();
        Self {
            query: self.query || reads.has_query(),
            all_headers: self.all_headers || reads.has_all_headers(),
            headers,
        }
    }

    pub(super) fn are_none(&self) -> bool {
        !self.query && !self.all_headers && self.headers.is_empty()
    }

    /// Returns the number of headers.
    pub(super) fn header_count(&self) -> usize {
        self.headers.len()
    }

    /// Returns the size of the inputs in bytes.
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.iter();
        size_of::<Self>()
            + headers.map(|name| size_of_val(name) + name.as_str().len()).sum::<usize>()
    }

    /// Encodes a request's values for these inputs. Two requests have the same encoding
    /// exactly if they have the same values.
    pub(super) fn encode(&self, request_ref: RequestRef<'_>) -> Vec<u8> {
        let mut all = Vec::new();
        let mut add = |value: &[u8]| {
            all.extend(value.len().to_le_bytes());
            all.extend(value);
        };
        if self.query {
            // No query differs from an empty one.
            add(&[u8::from(request_ref.query.is_some())]);
            add(request_ref.query.unwrap_or_default().as_bytes());
        }
        if self.all_headers {
            let headers = visible_headers(request_ref.headers);
            add(&headers.len().to_le_bytes());
            for (name, value) in headers {
                add(name.as_str().as_bytes());
                add(value.as_bytes());
            }
        }
        for name in &self.headers {
            let values = request_ref.headers.get_all(name);
            add(&values.iter().count().to_le_bytes());
            for value in values {
                add(value.as_bytes());
            }
        }
        all
    }
}
