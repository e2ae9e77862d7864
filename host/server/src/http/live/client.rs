//! A client that waits, with its request.

use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use relayer_rest_sandbox::GuestRequest;

use crate::http::connections::Peer;

/// A client, with its request in a compact form: most clients wait long, and share an entry
/// that has the request of one of them.
pub(in crate::http) struct Client {
    method: Method,
    /// The target that the client sent, and the lines of the headers.
    lines: Box<[u8]>,
    pub(super) peer: Peer,
}

impl Client {
    pub(in crate::http) fn new(request: &GuestRequest, peer: Peer) -> Self {
        let mut lines = request.target.as_str().as_bytes().to_vec();
        for (name, value) in &request.headers {
            lines.push(b'\n');
            lines.extend(name.as_str().as_bytes());
            lines.push(b':');
            // It has no line feed.
            lines.extend(value.as_bytes());
        }
        Self { method: request.method.clone(), lines: lines.into(), peer }
    }

    /// Returns the size of its request in bytes.
    pub(super) fn size(&self) -> usize {
        self.lines.len()
    }

    /// Returns its request, whose target is that of the client. It shares no memory with the
    /// buffer that was read from the connection, which it would keep. It has no extensions: a
    /// capsule of a later run would have the id of this request.
    pub(in crate::http) fn request(&self) -> Arc<GuestRequest> {
        let mut lines = self.lines.split(|byte| *byte == b'\n');
        let target = lines.next().and_then(|target| PathAndQuery::try_from(target).ok());
        let target = target.unwrap_or(PathAndQuery::from_static("/"));
        let mut headers = HeaderMap::new();
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let (name, value) = line.split_at(colon);
            let name = HeaderName::from_bytes(name);
            let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default());
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        Arc::new(GuestRequest::new(self.method.clone(), target, headers))
    }
}

/// Copies a value into memory of its own.
pub(super) fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).expect("a value has the bytes of one")
}

#[cfg(test)]
mod tests {
    use super::{Client, GuestRequest, HeaderMap, HeaderValue, Method, PathAndQuery, Peer};

    #[test]
    fn a_request_is_restored_from_its_compact_form() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("accept", &b"text/event-stream"[..]),
            ("x-a", b"1"),
            ("x-a", b"a: b:c"),
            ("x-empty", b""),
            ("x-bytes", b"\x80\xff\t"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        for target in ["/", "/a?b:c", "/chain/%0a:x"] {
            let target = PathAndQuery::from_static(target);
            let request = GuestRequest::new(Method::HEAD, target.clone(), headers.clone());
            let restored = Client::new(&request, Peer::SEVERAL).request();
            assert_eq!((&restored.method, &restored.target), (&Method::HEAD, &target));
            assert_eq!(restored.headers, headers);
        }
    }
}
