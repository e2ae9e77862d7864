//! A module's response with the HTTP headers that let clients and caches store it without
//! ever showing a stale one.
//!
//! Headers that the module sets take precedence. Otherwise, `etag` is a hash of the
//! response to a successful GET, `vary` lists the headers that the module read,
//! or is `*` if it read all, `cache-control` demands revalidation before each reuse, and `x-content-type-options`
//! keeps browsers from guessing the type of the body. The host alone sets
//! `x-relayer-module`, the module of the response, and adds to `vary` the headers by which
//! it chooses an encoding, or lets the client of a GET wait for the next version.

pub(crate) mod background;
mod compression;
mod encoding;
pub(crate) mod list;
pub(crate) mod vary;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use compression::Compression;
pub use compression::CompressionPermits;
pub(crate) use compression::{BYTE_HEADERS, is_text, may_encode};
pub use encoding::Encoding;
pub(crate) use encoding::GZIP_LEVEL;
use relayer_rest_sandbox::{GuestResponse, Module, ReadSet};
use relayer_rest_state::{Command, Generation};

/// A module's response, and the recorded reads that it was derived from.
#[derive(Debug)]
pub struct Response {
    has_own_etag: bool,
    status: StatusCode,
    plain: Representation,
    compression: Option<Compression>,
    reads: ReadSet,
    commands: Vec<Command>,
    generation: Generation,
}

/// A response in one encoding: headers and body.
#[derive(Debug)]
pub struct Representation {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Representation {
    /// Returns a copy that shares no memory with this one, and so no reference counts.
    pub(crate) fn to_unshared(&self) -> Self {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_str().as_bytes());
            headers.append(name.expect("it is a header's name"), unshared(value));
        }
        Self { headers, body: Bytes::copy_from_slice(&self.body) }
    }
}

/// The header with the module of a response: its name and the start of its digest.
pub(crate) const X_RELAYER_MODULE: HeaderName = HeaderName::from_static("x-relayer-module");

/// The header with the sources of the state. It is set anew for each outgoing response.
pub(crate) const X_RELAYER_SOURCE: HeaderName = HeaderName::from_static("x-relayer-source");

/// The header with the id of a request. It is set anew for each outgoing response.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Keeps browsers from interpreting a body as another type than the declared one, such as
/// text as a script.
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl Response {
    /// Creates the response that this module gave to a request with this method, on a
    /// snapshot of this generation.
    ///
    /// Its headers include an empty `x-request-id` and `x-relayer-source`, to be replaced in
    /// each outgoing copy: a copied map of headers has no capacity for others.
    #[must_use]
    pub fn new(
        module: &Module,
        method: &Method,
        response: GuestResponse,
        generation: Generation,
        permits: &CompressionPermits,
    ) -> Self {
        let GuestResponse { response, reads, commands, .. } = response;
        let (head, body) = response.into_parts();
        let status = head.status;
        let mut headers = head.headers;
        let has_own_etag = headers.contains_key(ETAG);
        // It identifies the representation that GET returns: none is set for other methods.
        let own_etag = status.is_success() && !has_own_etag && *method == Method::GET;
        if own_etag {
            headers.insert(ETAG, etag(status, &headers, &body));
        }
        if !headers.contains_key(VARY) {
            if reads.has_all_headers() {
                // Also on headers that this request did not have.
                headers.insert(VARY, HeaderValue::from_static("*"));
            } else {
                let names: Vec<_> = reads.headers().map(HeaderName::as_str).collect();
                vary::add(&mut headers, &names);
            }
        }
        // The host responds to HEAD from this response, too.
        if *method == Method::GET {
            vary::add(&mut headers, &vary::INTEREST);
        }
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        // After the validator, which covers only the headers of the module.
        if !headers.contains_key(X_CONTENT_TYPE_OPTIONS) {
            headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        }
        headers.insert(X_RELAYER_MODULE, module.label().clone());
        for name in [X_RELAYER_SOURCE, X_REQUEST_ID] {
            headers.insert(name, HeaderValue::from_static(""));
        }
        let compression = Compression::new(&mut headers, &body, own_etag, permits);
        // Without spare capacity, each copy would grow when one of its headers is
        // replaced.
        headers.reserve(1);
        Self {
            has_own_etag,
            status,
            plain: Representation { headers, body },
            compression,
            reads,
            commands,
            generation,
        }
    }

    /// Returns whether the module set the `etag` itself.
    pub(crate) fn has_own_etag(&self) -> bool {
        self.has_own_etag
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the commands to the relayer, which take effect only if the response is
    /// sent to a client.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the unencoded response.
    #[must_use]
    pub fn plain(&self) -> &Representation {
        &self.plain
    }

    /// Returns the response in this encoding. The body is left unencoded for [`None`], if
    /// compression saves too little, or if it cannot be done in time. Each encoding is
    /// made once, when it is first requested.
    pub async fn encoded(&self, encoding: Option<Encoding>) -> &Representation {
        match (&self.compression, encoding) {
            (Some(compression), Some(encoding)) => compression.make(encoding, &self.plain).await,
            _ => &self.plain,
        }
    }

    /// Returns the result of [`Self::encoded`] if that is available at once.
    #[must_use]
    pub fn made(&self, encoding: Option<Encoding>) -> Option<&Representation> {
        match (&self.compression, encoding) {
            (Some(compression), Some(encoding)) => compression.made(encoding, &self.plain),
            _ => Some(&self.plain),
        }
    }

    /// Returns whether the response is available in other encodings.
    #[must_use]
    pub fn is_compressible(&self) -> bool {
        self.compression.is_some()
    }

    /// Returns whether an entity tag is that of the response in any encoding.
    pub(crate) fn has_etag(&self, tag: &HeaderValue) -> bool {
        let Some(plain) = self.plain.headers.get(ETAG) else { return false };
        let compression = self.compression.as_ref();
        plain == tag || compression.is_some_and(|compression| compression.has_etag(plain, tag))
    }

    /// Returns the recorded reads that the response was derived from.
    #[must_use]
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// Returns the generation of the snapshot that the response was derived from.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the maximum size of the response in bytes, with all its encodings.
    #[must_use]
    pub fn size(&self) -> usize {
        let headers = headers_size(&self.plain.headers);
        let plain = size_of::<Self>() + headers + self.plain.body.len();
        let encoded = match &self.compression {
            Some(_) => {
                Encoding::ALL.len() * (headers + compression::max_encoded_size(&self.plain.body))
            }
            None => 0,
        };
        plain + encoded + self.reads.size()
    }
}

fn unshared(value: &HeaderValue) -> HeaderValue {
    let mut copy = HeaderValue::from_bytes(value.as_bytes()).expect("it is a header's value");
    copy.set_sensitive(value.is_sensitive());
    copy
}

/// Returns the size of headers in memory, in bytes.
pub(crate) fn headers_size(headers: &HeaderMap) -> usize {
    const VALUE: usize = size_of::<HeaderName>() + size_of::<HeaderValue>() + 32;
    headers.iter().map(|(name, value)| VALUE + name.as_str().len() + value.len()).sum()
}

/// Returns a strong validator: a hash of the status, the headers and the body.
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
