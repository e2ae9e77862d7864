//! The encodings of a response, each made once.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Representation;
use super::background;
use super::encoding::Encoding;
use super::list;
use super::vary;

/// Bodies of at most this size, in bytes, fit into a packet or two without compression.
const MIN_SIZE: usize = 1024;

/// Headers that describe the exact bytes of a body.
pub(crate) const BYTE_HEADERS: [HeaderName; 5] = [
    CONTENT_ENCODING,
    CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("repr-digest"),
];

/// The maximum time that a body waits for a permit. After that it is sent unencoded, and
/// the next request for it tries again.
const MAX_PERMIT_WAIT: Duration = Duration::from_millis(100);

/// No permit or no thread is available now to encode a body.
struct NotMade;

/// Permits to compress bodies of a mount at once, one for each processor. Other bodies
/// wait and leave the processors to requests. Mounts do not share permits, so that none
/// waits for the bodies of another.
#[derive(Debug, Clone)]
pub struct CompressionPermits(Arc<Semaphore>);

impl Default for CompressionPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }
}

/// The encodings of a body that is worth compressing.
#[derive(Debug)]
pub(super) struct Compression {
    encoded: [OnceCell<Option<Representation>>; Encoding::ALL.len()],
    /// Whether the validator was set by the host, not by the module.
    own_etag: bool,
    permits: CompressionPermits,
}

impl Compression {
    /// Returns the encodings of a response, none of them made yet, if it is worth
    /// compressing. Adds `accept-encoding` to `vary`.
    pub(super) fn new(
        headers: &mut HeaderMap,
        body: &Bytes,
        own_etag: bool,
        permits: &CompressionPermits,
    ) -> Option<Self> {
        if body.len() <= MIN_SIZE || !may_encode(headers) {
            return None;
        }
        vary::add(headers, &["accept-encoding"]);
        Some(Self { encoded: Default::default(), own_etag, permits: permits.clone() })
    }

    /// Returns the result of [`Self::make`] if the encoding was already made.
    pub(super) fn made<'a>(
        &'a self,
        encoding: Encoding,
        plain: &'a Representation,
    ) -> Option<&'a Representation> {
        Some(self.encoded[encoding as usize].get()?.as_ref().unwrap_or(plain))
    }

    /// Returns the response in this encoding, or `plain` if compression saves too little
    /// or cannot be done in time.
    pub(super) async fn make<'a>(
        &'a self,
        encoding: Encoding,
        plain: &'a Representation,
    ) -> &'a Representation {
        let made = self.encoded[encoding as usize].get_or_try_init(|| async {
            let permit = timeout(MAX_PERMIT_WAIT, Arc::clone(&self.permits.0).acquire_owned());
            let permit = permit.await.map_err(|_| NotMade)?;
            let body = encode(encoding, plain.body.clone(), permit.ok()).await.ok_or(NotMade)?;
            let headers = self.headers(encoding, &plain.headers);
            let is_shorter = body.len() <= max_encoded_size(&plain.body);
            Ok::<_, NotMade>(is_shorter.then_some(Representation { headers, body }))
        });
        made.await.ok().and_then(Option::as_ref).unwrap_or(plain)
    }

    /// Returns the headers of the encoded response.
    fn headers(&self, encoding: Encoding, plain: &HeaderMap) -> HeaderMap {
        let mut headers = plain.clone();
        headers.insert(CONTENT_ENCODING, encoding.header());
        if let Some(etag) = headers.get_mut(ETAG) {
            *etag = self.etag(encoding, etag);
        }
        headers
    }

    /// Returns the validator of the encoded response. Strong validators of encodings must
    /// differ: the host's gets the name of the encoding, a module's is made weak.
    fn etag(&self, encoding: Encoding, plain: &HeaderValue) -> HeaderValue {
        let plain_bytes = plain.as_bytes();
        let bytes = match plain_bytes.strip_suffix(b"\"") {
            Some(start) if self.own_etag => {
                [start, b"-", encoding.name().as_bytes(), b"\""].concat()
            }
            _ if plain_bytes.starts_with(b"W/") => return plain.clone(),
            _ => [b"W/", plain_bytes].concat(),
        };
        HeaderValue::from_maybe_shared(Bytes::from(bytes))
            .expect("it is a header's value with letters added")
    }

    /// Returns whether a validator is that of the response in an encoding.
    pub(super) fn has_etag(&self, plain: &HeaderValue, tag: &HeaderValue) -> bool {
        // Nothing is allocated, because each waiting client compares its tag.
        let (plain, tag) = (plain.as_bytes(), tag.as_bytes());
        if !self.own_etag {
            return tag.strip_prefix(b"W/") == Some(plain);
        }
        let start = plain.strip_suffix(b"\"");
        let suffix = start.and_then(|start| tag.strip_prefix(start)?.strip_prefix(b"-"));
        let name = suffix.and_then(|suffix| suffix.strip_suffix(b"\""));
        name.is_some_and(|name| Encoding::ALL.iter().any(|it| it.name().as_bytes() == name))
    }
}

/// Returns the maximum size in bytes of an encoded body that saves enough. Each encoding
/// is counted with this size, so that the size of a response is known from the start.
pub(super) fn max_encoded_size(body: &Bytes) -> usize {
    body.len() / 4 * 3
}

async fn encode(
    encoding: Encoding,
    body: Bytes,
    permit: Option<OwnedSemaphorePermit>,
) -> Option<Bytes> {
    let work = move || {
        // The work goes on when the client is gone, so it holds its permit.
        let _permit = permit;
        encoding.encode(&body)
    };
    // Sockets have priority; without a thread the body is sent unencoded.
    let encoded = background::run(work).await?.ok()?;
    // Drops spare capacity: encoders reserve as much as the size of the body.
    Some(encoded.into_boxed_slice().into())
}

/// Returns whether a body with these headers is text.
pub(crate) fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || ["json", "xml", "javascript"].iter().any(|kind| {
            essence.strip_prefix("application/").is_some_and(|subtype| subtype.ends_with(kind))
        })
        || essence == "image/svg+xml"
}

/// Returns whether the body is text that is not compressed yet and may be transformed.
pub(crate) fn may_encode(headers: &HeaderMap) -> bool {
    let as_it_is = list::has(headers, CACHE_CONTROL, "no-transform");
    let of_these_bytes = BYTE_HEADERS.iter().any(|name| headers.contains_key(name));
    is_text(headers) && !as_it_is && !of_these_bytes
}
