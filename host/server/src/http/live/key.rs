//! The key of an entry: the parts of a request that its response depends on.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use relayer_rest_sandbox::{GuestRequest, is_id};

use super::resolve::Answer;
use crate::registry::MountPath;

/// Returns the headers that requests to be told apart as a whole may have in common, in the order of
/// their names: all but the ids. Modules can read each header.
pub(super) fn common_headers(headers: &HeaderMap) -> Vec<(&HeaderName, &HeaderValue)> {
    let mut common: Vec<_> = headers.iter().filter(|(name, _)| !is_id(name)).collect();
    // Stable: the values of a name stay in their order.
    common.sort_by_key(|(name, _)| name.as_str());
    common
}

/// The key of an entry. Requests with equal keys get equal responses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(Box<[u8]>);

/// The parts so far.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Key {
    /// Returns the key of a request with this answer: the mount, the path, and the parts that
    /// the module read. If these are not known, it is the whole request, except for ids that the
    /// module has not read.
    pub(super) fn new(request: &GuestRequest, answer: &Answer) -> Self {
        match &answer.outcome {
            Ok(response) if response.reads().is_complete() => {
                let reads = response.reads();
                let mut parts = Parts::new(request, answer.mount.path());
                if reads.has_query() {
                    parts.add(b"?");
                    parts.query(request);
                }
                if reads.has_all_headers() {
                    parts.add(b"*");
                }
                let mut headers: Vec<_> = reads.header_values().collect();
                headers.sort_unstable_by_key(|(name, _)| name.as_str());
                for (name, values) in headers {
                    parts.header(name, values.iter());
                }
                parts.into()
            }
            Ok(response) => {
                let mut whole = Self::whole(request, answer.mount.path(), b"whole");
                let mut ids: Vec<_> = response.reads().header_values().collect();
                ids.retain(|(name, _)| is_id(name));
                ids.sort_unstable_by_key(|(name, _)| name.as_str());
                for (name, values) in ids {
                    whole.header(name, values.iter());
                }
                whole.into()
            }
            Err(_) if answer.is_failure => Self::of_failure(request, answer.mount.path()),
            Err(_) => Self::whole(request, answer.mount.path(), b"error").into(),
        }
    }

    /// Returns the key of a request for which the module fails. The parts that it read before
    /// that are not known.
    pub(super) fn of_failure(request: &GuestRequest, mount: &MountPath) -> Self {
        Self::whole(request, mount, b"failure").into()
    }

    fn whole(request: &GuestRequest, mount: &MountPath, kind: &[u8]) -> Parts {
        let mut parts = Parts::new(request, mount);
        parts.add(kind);
        parts.query(request);
        for (name, value) in common_headers(&request.headers) {
            parts.header(name, [value].into_iter());
        }
        parts
    }
}

impl From<Parts> for Key {
    fn from(parts: Parts) -> Self {
        Self(parts.0.into())
    }
}

impl Parts {
    fn new(request: &GuestRequest, mount: &MountPath) -> Self {
        let mut parts = Self::default();
        parts.add(mount.as_str().as_bytes());
        parts.add(request.target.path().as_bytes());
        parts
    }

    /// Adds a part with its length, so that no two lists of parts are equal.
    fn add(&mut self, part: &[u8]) {
        self.0.extend(part.len().to_le_bytes());
        self.0.extend(part);
    }

    fn query(&mut self, request: &GuestRequest) {
        // No query differs from an empty one.
        self.add(&[u8::from(request.target.query().is_some())]);
        self.add(request.target.query().unwrap_or_default().as_bytes());
    }

    fn header<'a>(
        &mut self,
        name: &HeaderName,
        values: impl ExactSizeIterator<Item = &'a HeaderValue>,
    ) {
        self.add(name.as_str().as_bytes());
        self.add(&values.len().to_le_bytes());
        values.for_each(|value| self.add(value.as_bytes()));
    }
}
