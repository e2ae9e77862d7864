//! A module's answer as HTTP has it: with what lets clients and caches keep it
//! without ever showing what is no longer so.
//!
//! A module's own headers win. Where it does not set them, `etag` is made of
//! the content, `vary` has the headers that the module read,
//! `cache-control` asks to come back before an answer is shown again, and
//! `x-content-type-options` keeps browsers from guessing the type of the body. Which
//! module gave an answer is for the host to say.

mod background;
mod compression;
mod encoding;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::cache::RequestRef;
use crate::module::{GuestRequest, GuestResponse, Module, ReadSet};
use crate::state::Generation;
use compression::Compression;
pub(crate) use compression::CompressionPermits;
pub use encoding::Encoding;

/// A module's answer, and what it was made from.
#[derive(Debug)]
pub struct Response {
    request: GuestRequest,
    hits: AtomicU64,
    has_own_etag: bool,
    status: StatusCode,
    plain: Representation,
    compression: Option<Compression>,
    reads: ReadSet,
    generation: Generation,
}

/// An answer in one encoding: headers and body.
#[derive(Debug)]
pub struct Representation {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The module that gave an answer: its name and the start of its digest.
pub(crate) const X_RELAYER_MODULE: HeaderName = HeaderName::from_static("x-relayer-module");

/// The id of a request. Each answer that goes out has one of its own.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Keeps browsers from taking a body for another type than it says, such as text
/// for a script.
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl Response {
    /// The answer that this module gave to a question, on a snapshot of this
    /// generation.
    ///
    /// Among its headers is an empty `x-request-id`, to be replaced in what goes
    /// out: a copy of the headers has no room for one more.
    #[must_use]
    pub fn new(
        module: &Module,
        request_ref: RequestRef<'_>,
        answer: GuestResponse,
        generation: Generation,
    ) -> Self {
        let GuestResponse { response, reads, .. } = answer;
        let (head, body) = response.into_parts();
        let (status, mut headers) = (head.status, head.headers);
        let has_own_etag = headers.contains_key(ETAG);
        // It says which representation GET gives, so it is not for another method.
        let own_etag = status.is_success() && !has_own_etag && *request_ref.method == Method::GET;
        if own_etag {
            headers.insert(ETAG, etag(status, &headers, &body));
        }
        if !headers.contains_key(VARY) {
            for name in reads.headers() {
                headers.append(VARY, HeaderValue::from(name.clone()));
            }
        }
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        // After the validator, which is of what the module said.
        if !headers.contains_key(X_CONTENT_TYPE_OPTIONS) {
            headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        }
        headers.insert(X_RELAYER_MODULE, module.label().clone());
        headers.insert(X_REQUEST_ID, HeaderValue::from_static(""));
        let compression =
            Compression::of(&mut headers, &body, own_etag, module.engine().compressing());
        // Without room for one more, each copy grows if one of them is replaced.
        headers.reserve(1);
        Self {
            request: request_ref.recorded(&reads),
            hits: AtomicU64::new(1),
            has_own_etag,
            status,
            plain: Representation { headers, body },
            compression,
            reads,
            generation,
        }
    }

    /// What was asked, with those headers only that were read, and with the query
    /// only if it was read.
    #[must_use]
    pub fn request(&self) -> &GuestRequest {
        &self.request
    }

    /// About how often it was asked for. Who asks at the same time as another
    /// may not be counted.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// It was made before it was asked for: this often, by those before.
    pub(crate) fn set_hits(&self, times: u64) {
        self.hits.store(times, Relaxed);
    }

    /// Whether the module says itself by what the answer is told from others.
    pub(crate) fn has_own_etag(&self) -> bool {
        self.has_own_etag
    }

    /// It was asked for, this often.
    pub(crate) fn count(&self, times: u64) {
        // Not an exchange: this is done for every hit.
        self.hits.store(self.hits.load(Relaxed).saturating_add(times), Relaxed);
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer as it is.
    #[must_use]
    pub fn plain(&self) -> &Representation {
        &self.plain
    }

    /// The answer in this encoding, or as it is where there is none or that
    /// would not be shorter. Each encoding is made once, when it is first asked
    /// for.
    pub async fn encoded(&self, encoding: Option<Encoding>) -> &Representation {
        match (&self.compression, encoding) {
            (Some(compression), Some(encoding)) => compression.make(encoding, &self.plain).await,
            _ => &self.plain,
        }
    }

    /// The same, where it need not be made first.
    #[must_use]
    pub fn made(&self, encoding: Option<Encoding>) -> Option<&Representation> {
        match (&self.compression, encoding) {
            (Some(compression), Some(encoding)) => compression.made(encoding, &self.plain),
            _ => Some(&self.plain),
        }
    }

    /// Whether it can be had in another encoding.
    #[must_use]
    pub fn is_compressible(&self) -> bool {
        self.compression.is_some()
    }

    /// What it was made from.
    #[must_use]
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The generation of the snapshot that it was made from.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The most bytes that it takes, with all its encodings.
    #[must_use]
    pub fn size(&self) -> usize {
        const VALUE: usize = size_of::<HeaderName>() + size_of::<HeaderValue>() + 32;
        let header =
            |(name, value): (&HeaderName, &HeaderValue)| VALUE + name.as_str().len() + value.len();
        let headers: usize = self.plain.headers.iter().map(header).sum();
        let request: usize = self.request.headers.iter().map(header).sum();
        let request = request + self.request.target.as_str().len();
        let plain = size_of::<Self>() + request + headers + self.plain.body.len();
        let encoded = match &self.compression {
            Some(_) => {
                Encoding::ALL.len() * (headers + compression::max_concurrent(&self.plain.body))
            }
            None => 0,
        };
        plain + encoded + self.reads.size()
    }
}

/// A strong validator: the hash of all that a client is told.
fn etag(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> HeaderValue {
    let mut hash = blake3::Hasher::new();
    let mut part = |part: &[u8]| {
        hash.update(&part.len().to_le_bytes()).update(part);
    };
    part(status.as_str().as_bytes());
    for (name, value) in headers {
        part(name.as_str().as_bytes());
        part(value.as_bytes());
    }
    part(body);
    let hash = hash.finalize().to_hex();
    let text = format!("\"{}\"", &hash[..32]);
    HeaderValue::try_from(text).expect("digits in quotes make a valid header")
}
