//! The id under which the log has a request. It comes with the request where
//! that has a sane one, and goes out with the answer.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Display, Formatter};
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken from a client, in bytes.
const LONGEST: usize = 128;

/// A request's id: some letters, digits and `-_.:`.
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The client's id, or a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        headers
            .get(X_REQUEST_ID)
            .filter(|id| is_sane(id))
            .map_or_else(Self::new, |id| Self(id.clone()))
    }

    /// An id that no other request of this process has, and hardly one of
    /// another process.
    fn new() -> Self {
        static PROCESS: LazyLock<u64> =
            LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:016x}{:08x}", *PROCESS, COUNT.fetch_add(1, Relaxed));
        Self(HeaderValue::try_from(id).expect("digits make a valid header"))
    }

    pub(super) fn into_header(self) -> HeaderValue {
        self.0
    }
}

impl Display for RequestId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().expect("an id is text"))
    }
}

fn is_sane(id: &HeaderValue) -> bool {
    (1..=LONGEST).contains(&id.len())
        && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{RequestId, X_REQUEST_ID};
    use hyper::HeaderMap;

    fn id(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, value.try_into().unwrap());
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn a_sane_id_is_kept() {
        for sane in ["1", "8f6b2c1e-9d1a-4a51", "a_b.c:d", &"x".repeat(128)] {
            assert_eq!(id(sane.as_bytes()), sane);
        }
    }

    #[test]
    fn any_other_id_is_replaced() {
        for insane in [&b""[..], b"a b", b"a\tb", b"\xff", b"id=1", &[b'x'; 129]] {
            let made = id(insane);
            assert_eq!(made.len(), 24, "{made}");
            assert_ne!(made.as_bytes(), insane);
        }
    }

    #[test]
    fn made_ids_differ() {
        let headers = HeaderMap::new();
        assert_ne!(RequestId::of(&headers).to_string(), RequestId::of(&headers).to_string());
    }
}
