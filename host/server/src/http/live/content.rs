//! The content of a version.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_ENCODING, ETAG};
use tokio::time::Instant;

use super::key::Key;
use crate::cache::RecordedResponse;
use crate::response::{self, Representation};

/// The content of a version.
#[derive(Debug, Clone)]
pub(in crate::http) enum Content {
    /// A response of the module.
    Response(Arc<RecordedResponse>),
    /// An error response of the host, as the module gave none.
    Error(Arc<hyper::Response<Bytes>>),
    /// A failure of the requests with this key only. The waiters of other requests of the entry
    /// look for their own ones.
    Failure(Arc<hyper::Response<Bytes>>, Key),
    /// The requests of the entry have different responses now: each waiter looks for its own.
    Moved,
    /// Nothing follows: the waits end until this moment.
    Ended(Instant),
}

impl Content {
    /// Returns whether clients cannot tell two contents apart.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Response(one), Self::Response(other)) => {
                Arc::ptr_eq(one, other)
                    || one.status() == other.status()
                        && one.plain().headers.get(ETAG) == other.plain().headers.get(ETAG)
                        && (one.plain().headers.contains_key(ETAG)
                            || one.plain().body == other.plain().body)
            }
            (Self::Error(one), Self::Error(other)) => is_same_error(one, other),
            (Self::Failure(one, key), Self::Failure(other, other_key)) => {
                key == other_key && is_same_error(one, other)
            }
            (Self::Moved, Self::Moved) => true,
            _ => false,
        }
    }

    /// Returns the body of a successful response that can be sent as events.
    pub(super) fn text(&self) -> Option<&Bytes> {
        match self {
            Self::Response(response) if response.status().is_success() => {
                text(response).map(|_| &response.plain().body)
            }
            _ => None,
        }
    }

    /// Returns the maximum size in bytes, with all encodings.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Response(response) => response.size(),
            Self::Error(response) | Self::Failure(response, _) => response.body().len(),
            Self::Moved | Self::Ended(_) => 0,
        }
    }
}

/// Returns the body of a response that can be sent as events: text, and not encoded.
pub(super) fn text(response: &RecordedResponse) -> Option<&str> {
    let Representation { headers, body } = response.plain();
    let is_text = response::is_text(headers) && !headers.contains_key(CONTENT_ENCODING);
    str::from_utf8(body).ok().filter(|_| is_text)
}

fn is_same_error(one: &hyper::Response<Bytes>, other: &hyper::Response<Bytes>) -> bool {
    one.status() == other.status() && one.body() == other.body()
}
