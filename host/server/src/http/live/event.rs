//! Events of a stream, as the WHATWG's HTML standard defines `text/event-stream`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::json;
use tokio::sync::OnceCell;

use super::content::{self, Content};
use super::gzip::Blocks;
use super::work;
use crate::http::error::HostError;

/// Texts of at most this size, in bytes, gain little from compression.
const MIN_COMPRESSED: usize = 128;

/// The start of each line of a body.
const DATA: &str = "data: ";

/// The most bytes of an event besides its data.
const MAX_FIELDS: usize = 256;

/// The most bytes of a byte as JSON: `\u0000`.
const MAX_ESCAPED: usize = 6;

/// An event, with its compressed form, which is made once. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Event(Arc<Forms>);

#[derive(Debug)]
struct Forms {
    text: Bytes,
    blocks: OnceCell<Blocks>,
}

impl Event {
    pub(super) fn new(text: Bytes) -> Self {
        Self(Arc::new(Forms { text, blocks: OnceCell::new() }))
    }

    pub(super) fn text(&self) -> &Bytes {
        &self.0.text
    }

    /// Returns the compressed form.
    pub(super) async fn blocks(&self) -> &Blocks {
        let Forms { text, blocks } = &*self.0;
        let make = async || {
            if text.len() <= MIN_COMPRESSED {
                return Blocks::stored(text);
            }
            let shared = text.clone();
            let deflated = work::run(move || Blocks::deflated(&shared)).await;
            deflated.unwrap_or_else(|| Blocks::stored(text))
        };
        blocks.get_or_init(make).await
    }
}

/// A comment, which keeps the connection from being closed.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Returns a version as an event: `change` with the body, or `failed` with the status and the
/// body of an error.
pub(super) fn version(content: &Content, etag: Option<&HeaderValue>) -> Bytes {
    match content {
        Content::Response(response) if response.status().is_success() => {
            if let Some(text) = content::text(response) {
                return event("change", Some(id(etag)), text);
            }
            let error = HostError::NotText.response();
            failed(error.status(), error.body())
        }
        Content::Response(response) => failed(response.status(), &response.plain().body),
        Content::Error(response) | Content::Failure(response, _) => {
            failed(response.status(), response.body())
        }
        Content::Moved | Content::Ended(_) => COMMENT,
    }
}

/// Returns the maximum size of the event of a version in bytes, as a text and compressed.
pub(super) fn max_size(content: &Content, etag: Option<&HeaderValue>) -> usize {
    let data = match content {
        Content::Response(response) if response.status().is_success() => {
            max_lines_size(content::text(response).unwrap_or_default())
        }
        Content::Response(response) => MAX_ESCAPED * response.plain().body.len(),
        Content::Error(response) | Content::Failure(response, _) => {
            MAX_ESCAPED * response.body().len()
        }
        Content::Moved | Content::Ended(_) => 0,
    };
    2 * (MAX_FIELDS + etag.map_or(0, HeaderValue::len) + data)
}

/// Returns the maximum size of a body whose lines are fields, in bytes.
fn max_lines_size(text: &str) -> usize {
    let ends = text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    text.len() + DATA.len() * ends
}

/// Returns a patch as an event.
pub(super) fn patch(patch: &str, etag: Option<&HeaderValue>) -> Bytes {
    event("patch", Some(id(etag)), patch)
}

/// Returns the event of values that their source no longer confirms, with their age in
/// seconds; or of values that it confirms again.
pub(super) fn stale(since: Option<Instant>) -> Bytes {
    match since {
        Some(since) => event("stale", None, &json!({"age": since.elapsed().as_secs()}).to_string()),
        None => event("confirmed", None, "{}"),
    }
}

/// Returns the field that lets a client connect again after this time.
pub(super) fn retry(after: Duration) -> Bytes {
    format!("retry: {}\n\n", after.as_millis()).into()
}

/// Returns an error with its status; its body as JSON if it is that, or else as text. Its id is
/// empty: a client that connects again does not have the version before.
fn failed(status: StatusCode, body: &Bytes) -> Bytes {
    let body =
        serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)));
    let data = json!({"status": status.as_u16(), "body": body}).to_string();
    event("failed", Some(""), &data)
}

/// Returns the id of a version. It is empty without a tag, or with one that no event can have: a
/// client that connects again must not name the version before.
fn id(etag: Option<&HeaderValue>) -> &str {
    etag.and_then(|etag| str::from_utf8(etag.as_bytes()).ok()).unwrap_or_default()
}

fn event(name: &str, id: Option<&str>, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + 128);
    if let Some(id) = id {
        text.push_str("id: ");
        text.push_str(id);
        text.push('\n');
    }
    text.push_str("event: ");
    text.push_str(name);
    text.push('\n');
    // A carriage return would end a line, too.
    for line in data.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        for line in line.split('\r') {
            text.push_str(DATA);
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push('\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::{
        MAX_ESCAPED, MAX_FIELDS, StatusCode, event, failed, id, max_lines_size, patch, retry,
    };
    use bytes::Bytes;
    use hyper::header::HeaderValue;
    use std::time::Duration;

    #[test]
    fn each_line_of_a_body_is_a_line_of_data() {
        for (data, expected) in [
            ("{}", "data: {}\n"),
            ("a\nb", "data: a\ndata: b\n"),
            ("a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n"),
            ("", "data: \n"),
        ] {
            let expected = format!("id: \"a\"\nevent: change\n{expected}\n");
            assert_eq!(event("change", Some("\"a\""), data), expected, "{data:?}");
        }
    }

    #[test]
    fn the_id_of_a_version_is_its_tag_if_an_event_can_have_it() {
        for (tag, expected) in
            [(&b"\"a b\""[..], "\"a b\""), ("W/\"é\"".as_bytes(), "W/\"é\""), (b"\"\xe9\"", "")]
        {
            let tag = HeaderValue::from_bytes(tag).unwrap();
            assert_eq!(id(Some(&tag)), expected);
        }
        assert_eq!(patch("[]", None), "id: \nevent: patch\ndata: []\n\n");
    }

    #[test]
    fn an_event_is_no_larger_than_its_maximum() {
        let tag = "\"00000000000000000000000000000000\"";
        for line in ["\n", "\r", "\r\n", "a", "a\n"] {
            let text = line.repeat(10_000);
            let size = event("change", Some(tag), &text).len();
            assert!(size <= MAX_FIELDS + max_lines_size(&text), "{size} bytes of {line:?}");
        }
        for body in ["\0", "\u{1}\"", "é"] {
            let body = Bytes::from(body.repeat(10_000));
            let size = failed(StatusCode::INTERNAL_SERVER_ERROR, &body).len();
            assert!(size <= MAX_FIELDS + MAX_ESCAPED * body.len(), "{size} bytes");
        }
    }

    #[test]
    fn an_error_has_its_status_and_its_body() {
        let event = |body: &'static str| failed(StatusCode::NOT_FOUND, &Bytes::from(body));
        let json = event(r#"{"a":[1]}"#);
        assert_eq!(json, "id: \nevent: failed\ndata: {\"status\":404,\"body\":{\"a\":[1]}}\n\n");
        assert_eq!(event("no"), "id: \nevent: failed\ndata: {\"status\":404,\"body\":\"no\"}\n\n");
    }

    #[test]
    fn a_time_to_connect_again_is_in_milliseconds() {
        assert_eq!(retry(Duration::from_millis(1500)), "retry: 1500\n\n");
    }
}
