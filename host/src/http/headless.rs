//! Answers to what has no head: where there is no room for a connection, and
//! where what came is no request. The library answers the latter itself, with
//! nothing but a status; that is replaced by an answer as all others are.

use std::str::from_utf8;

use hyper::HeaderMap;
use hyper::header::CONNECTION;
use tracing::debug;

use super::error::HostError;
use super::request_id::RequestId;
use crate::response::X_REQUEST_ID;

/// The header by which the library's own answers are known: they have no body.
const EMPTY: &str = "content-length: 0\r\n";

/// An answer as it is written, after which the connection is closed.
pub(super) fn answer(error: HostError) -> Vec<u8> {
    let status = error.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let head = format!("HTTP/1.1 {} {reason}\r\nconnection: close\r\n{EMPTY}\r\n", status.as_u16());
    filled(&head, error).unwrap_or_default()
}

/// What is sent in place of what the library says of its own accord.
pub(super) fn instead(of: &[u8]) -> Option<Vec<u8>> {
    let head = from_utf8(of).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let error = match status {
        "400" => HostError::NotHttp,
        "414" => HostError::TargetTooLong,
        "431" => HostError::HeadTooLarge,
        _ => return None,
    };
    filled(head, error)
}

/// A head that has no body, with what an error says.
fn filled(head: &str, error: HostError) -> Option<Vec<u8>> {
    let (start, end) = head.strip_suffix("\r\n")?.split_once(EMPTY)?;
    let id = RequestId::of(&HeaderMap::new());
    debug!(%id, status = error.status().as_u16(), name = error.name(), "refused");
    let response = error.response();
    let mut answer = start.as_bytes().to_vec();
    for (name, value) in response.headers().iter().filter(|(name, _)| *name != CONNECTION) {
        answer.extend_from_slice(format!("{name}: ").as_bytes());
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    let length = response.body().len();
    let framing = format!("content-length: {length}\r\n{X_REQUEST_ID}: {id}\r\n{end}\r\n");
    answer.extend_from_slice(framing.as_bytes());
    answer.extend_from_slice(response.body());
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::{HostError, answer, instead};

    fn parts(answer: Vec<u8>) -> (String, String) {
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn an_answer_is_as_long_as_it_says_and_has_an_id() {
        let (head, body) = parts(answer(HostError::ConnectionsTooMany));
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"));
        for line in [format!("content-length: {}", body.len()), "retry-after: 1".to_owned()] {
            assert!(head.lines().any(|known| known == line), "{line}: {head}");
        }
        assert!(head.contains("\r\nx-request-id: "), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["result"]["name"], "Overloaded");
    }

    #[test]
    fn what_the_library_says_is_kept_but_for_the_body() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
            content-length: 0\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        let (head, body) = parts(instead(own).unwrap());
        assert!(
            head.starts_with(
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
            )
        );
        assert!(head.ends_with("\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT"), "{head}");
        assert_eq!(head.matches("content-length").count(), 1);
        assert!(body.contains("HeadersTooLarge"), "{body}");
    }

    #[test]
    fn what_is_no_answer_of_the_librarys_is_left_as_it_is() {
        for other in [
            &b"HTTP/1.1 100 Continue\r\n\r\n"[..],
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"\0\0\x12\x04\0\0\0\0\0",
            b"",
        ] {
            assert_eq!(instead(other), None);
        }
    }
}
