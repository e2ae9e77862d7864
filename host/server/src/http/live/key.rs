//! The key of an entry: the parts of a request that its response depends on.

use hyper::header::{HeaderName, HeaderValue};
use relayer_rest_sandbox::{GuestRequest, visible_headers};

use super::resolve::Answer;
use crate::registry::MountPath;

/// The key of an entry. Requests with equal keys get equal responses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(Box<[u8]>);

/// The parts so far.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Key {
    /// Returns the key of a request with this answer: the mount, the path, and the parts that
    /// the module read. If that is not known, it is the whole request, except for the headers
    /// that tell equal requests apart.
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
                Self(parts.0.into())
            }
            Ok(_) => Self::whole(request, answer.mount.path(), b"whole"),
            Err(_) if answer.is_failure => Self::of_failure(request, answer.mount.path()),
            Err(_) => Self::whole(request, answer.mount.path(), b"error"),
        }
    }

    /// Returns the key of a request for which the module fails. The parts that it read before
    /// that are not known.
    pub(super) fn of_failure(request: &GuestRequest, mount: &MountPath) -> Self {
        Self::whole(request, mount, b"failure")
    }

    fn whole(request: &GuestRequest, mount: &MountPath, kind: &[u8]) -> Self {
        let mut parts = Parts::new(request, mount);
        parts.add(kind);
        parts.query(request);
        for (name, value) in visible_headers(&request.headers) {
            parts.header(name, [value].into_iter());
        }
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
