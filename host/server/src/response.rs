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
    /// Returns a copy that shares no reference counts with this one. Common names and values are
    /// constants, which have none: each response copies all of them.
    pub(crate) fn to_unshared(&self) -> Self {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            headers.append(unshared_name(name), unshared(value));
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

/// The headers that differ between the requests for a response.
static FIRST: [HeaderName; 2] = [X_RELAYER_SOURCE, X_REQUEST_ID];

/// The headers that only the host sets.
static OWN: [HeaderName; 3] = [X_RELAYER_SOURCE, X_REQUEST_ID, X_RELAYER_MODULE];

/// Common values of headers.
static COMMON: [HeaderValue; 6] = [
    HeaderValue::from_static(""),
    HeaderValue::from_static("application/json"),
    HeaderValue::from_static("accept, prefer"),
    HeaderValue::from_static("accept, prefer, accept-encoding"),
    HeaderValue::from_static("no-cache"),
    NOSNIFF,
];

/// Keeps browsers from interpreting a body as another type than the declared one, such as
/// text as a script.
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl Response {
    /// Creates the response that this module gave to a request with this method, on a
    /// snapshot of this generation.
    ///
    /// Its headers begin with an empty `x-relayer-source` and `x-request-id`, to be replaced in
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
        let compression = Compression::new(&mut headers, &body, own_etag, permits);
        let headers = with_first(headers);
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

/// Returns these headers after empty ones for [`set_first`].
fn with_first(mut headers: HeaderMap) -> HeaderMap {
    // A copy has an index of the same size: with space for a header such as `age`.
    let mut all = HeaderMap::with_capacity(headers.len() + FIRST.len() + 1);
    for name in &FIRST {
        headers.remove(name);
        all.insert(name, HeaderValue::from_static(""));
    }
    all.extend(headers);
    all
}

/// Sets the headers that differ between the requests for a response: in place, if they are the
/// first two. A lookup of both would take half as long as to copy all headers.
pub(crate) fn set_first(headers: &mut HeaderMap, values: [HeaderValue; 2]) {
    if headers.keys().take(FIRST.len()).eq(&FIRST) {
        headers.values_mut().zip(values).for_each(|(place, value)| *place = value);
    } else {
        for (name, value) in FIRST.iter().zip(values) {
            headers.insert(name, value);
        }
    }
}

fn unshared_name(name: &HeaderName) -> HeaderName {
    let constant = OWN.iter().find(|own| *own == name);
    constant.cloned().unwrap_or_else(|| {
        HeaderName::from_bytes(name.as_str().as_bytes()).expect("it is a header's name")
    })
}

fn unshared(value: &HeaderValue) -> HeaderValue {
    if !value.is_sensitive()
        && let Some(common) = COMMON.iter().find(|common| *common == value)
    {
        return common.clone();
    }
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

#[cfg(test)]
mod tests {
    use super::{COMMON, HeaderMap, HeaderValue, set_first, unshared, with_first};

    #[test]
    fn the_headers_of_a_request_are_replaced_where_they_are_and_added_otherwise() {
        let mut of_module = HeaderMap::new();
        for (name, value) in
            [("a", "1"), ("x-request-id", "2"), ("a", "3"), ("x-request-id", "4"), ("b", "5")]
        {
            of_module.append(name, HeaderValue::from_static(value));
        }
        let names = ["x-relayer-source", "x-request-id"];
        let values = ["program", "id"].map(HeaderValue::from_static);
        let mut prepared = with_first(of_module.clone());
        let capacity = prepared.capacity();
        set_first(&mut prepared, values.clone());
        assert_eq!(prepared.capacity(), capacity);
        let all: Vec<_> = prepared.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let expected =
            [(names[0], "program"), (names[1], "id"), ("a", "1"), ("a", "3"), ("b", "5")];
        assert_eq!(all.len(), expected.len());
        assert!(all.iter().zip(expected).all(|(one, other)| one.0 == other.0 && one.1 == other.1));

        // Those of an error of the host, or without one of them.
        for mut headers in [HeaderMap::new(), of_module] {
            set_first(&mut headers, values.clone());
            for (name, value) in names.iter().zip(&values) {
                assert_eq!(headers.get_all(*name).iter().collect::<Vec<_>>(), [value], "{name}");
            }
        }
    }

    #[test]
    fn a_copy_of_a_value_is_a_constant_or_has_memory_of_its_own() {
        for common in &COMMON {
            let value = HeaderValue::from_bytes(common.as_bytes()).unwrap();
            assert_eq!(unshared(&value).as_bytes().as_ptr(), common.as_bytes().as_ptr());
        }
        let mut value = HeaderValue::try_from("no-cache, private".to_owned()).unwrap();
        assert_ne!(unshared(&value).as_bytes().as_ptr(), value.as_bytes().as_ptr());
        assert_eq!(unshared(&value), value);
        value.set_sensitive(true);
        assert!(unshared(&value).is_sensitive());
        let mut common = COMMON[1].clone();
        common.set_sensitive(true);
        assert!(unshared(&common).is_sensitive());
    }
}
