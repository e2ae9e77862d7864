//! The id of a request in the log: the client's `x-request-id` if it is valid, or else a
//! new one. It is sent with the response.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::fmt::{self, Display, Formatter};
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;

use super::field_values::field_values;
use crate::response::X_REQUEST_ID;

/// The maximum length of an id that is accepted from a client, in bytes.
const MAX_LENGTH: usize = 128;

/// The number of digits of a generated id, and the number of ids that are generated at
/// once.
const DIGITS: usize = 24;
const BLOCK: u32 = 64;

/// A request's id: letters, digits and `-_.:`.
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the client's id, or a new one.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        field_values(headers, &X_REQUEST_ID)
            .next()
            .filter(|id| is_sane(id))
            .map_or_else(Self::new, |id| Self(id.clone()))
    }

    /// Returns an id that no other request of this process has, and most likely none of
    /// another process.
    fn new() -> Self {
        thread_local! {
            static MADE: RefCell<Bytes> = const { RefCell::new(Bytes::new()) };
        }
        let id = MADE.with_borrow_mut(|made| {
            if made.is_empty() {
                *made = block();
            }
            made.split_to(DIGITS)
        });
        Self(HeaderValue::from_maybe_shared(id).expect("digits make a valid header"))
    }

    pub(super) fn header(&self) -> &HeaderValue {
        &self.0
    }

    pub(super) fn into_header(self) -> HeaderValue {
        self.0
    }
}

/// Returns [`BLOCK`] consecutive ids in one allocation.
fn block() -> Bytes {
    static PROCESS: LazyLock<[u8; 16]> =
        LazyLock::new(|| digits(RandomState::new().hash_one(std::process::id())));
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let first = COUNT.fetch_add(BLOCK, Relaxed);
    let mut ids = Vec::with_capacity(DIGITS * BLOCK as usize);
    for id in 0..BLOCK {
        ids.extend_from_slice(&*PROCESS);
        ids.extend(digits::<8>(first.wrapping_add(id).into()));
    }
    ids.into()
}

/// Returns a number in hexadecimal.
fn digits<const COUNT: usize>(number: u64) -> [u8; COUNT] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| DIGITS[(number >> (4 * (COUNT - 1 - place)) & 15) as usize])
}

impl Display for RequestId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().expect("an id is text"))
    }
}

fn is_sane(id: &HeaderValue) -> bool {
    (1..=MAX_LENGTH).contains(&id.len())
        && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{RequestId, X_REQUEST_ID};
    use hyper::HeaderMap;
    use std::collections::HashSet;
    use std::thread;

    fn id(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, value.try_into().unwrap());
        RequestId::from_headers(&headers).to_string()
    }

    #[test]
    fn a_valid_id_is_kept() {
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
    fn generated_ids_differ() {
        // More than a thread takes at once.
        let take = || {
            let headers = HeaderMap::new();
            (0..150).map(|_| RequestId::from_headers(&headers).to_string()).collect::<Vec<_>>()
        };
        let other = thread::spawn(take);
        let ids: HashSet<_> = take().into_iter().chain(other.join().unwrap()).collect();
        assert_eq!(ids.len(), 300);
    }
}
