//! Answers, and errors in the form that this API has for them.

use std::borrow::Cow;

use serde::Serialize;

use crate::bindings::exports::relayer::rest::handler;
use crate::contract::NotReady;

/// What a module answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status: 200 to 599.
    pub status: u16,
    /// The headers, in their order. The host adds those that frame the message,
    /// and an `etag`.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What results are wrapped in.
#[derive(Serialize)]
struct Envelope<T> {
    status: &'static str,
    result: T,
}

/// The result of an error.
#[derive(Serialize)]
struct Error<'a> {
    name: &'a str,
    msg: &'a str,
}

impl Response {
    /// A status, with no header and no body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// 200 with a body of a type, such as `text/html; charset=utf-8`.
    #[must_use]
    pub fn of_type(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", Cow::Borrowed(content_type))];
        Self { status: 200, headers, body: body.into() }
    }

    /// 200 with a plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of_type("text/plain; charset=utf-8", text.into())
    }

    /// A value as JSON.
    ///
    /// # Panics
    /// Where the value cannot be written as JSON: a map whose keys are no texts.
    #[must_use]
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        Self::json_of_size(status, value, 0)
    }

    /// The same, whose JSON is about `size` bytes long.
    ///
    /// # Panics
    /// The same.
    #[must_use]
    pub fn json_of_size(status: u16, value: &impl Serialize, size: usize) -> Self {
        let mut body = Vec::with_capacity(size.max(128));
        serde_json::to_writer(&mut body, value)
            .expect("writing to memory succeeds and every key is a text");
        Self::json_written(status, body)
    }

    /// JSON that is written already.
    #[must_use]
    pub fn json_written(status: u16, body: Vec<u8>) -> Self {
        Self { status, ..Self::of_type("application/json", body) }
    }

    /// `{"status":"success","result":…}`.
    #[must_use]
    pub fn success(result: impl Serialize) -> Self {
        Self::success_of_size(result, 0)
    }

    /// The same, whose JSON is about `size` bytes long.
    #[must_use]
    pub fn success_of_size(result: impl Serialize, size: usize) -> Self {
        Self::json_of_size(200, &Envelope { status: "success", result }, size)
    }

    /// `{"status":"error","result":{"name":…,"msg":…}}`: the name is for
    /// programs, the message for people.
    #[must_use]
    pub fn error(status: u16, name: &str, msg: &str) -> Self {
        Self::json(status, &Envelope { status: "error", result: Error { name, msg } })
    }

    /// 503 `NotReady`, which says when to ask again: for what the host does not
    /// know yet.
    #[must_use]
    pub fn not_ready(reason: &NotReady) -> Self {
        let seconds = reason.retry_after.div_ceil(1_000_000_000).max(1);
        Self::error(503, "NotReady", &reason.message)
            .with_header("retry-after", seconds.to_string())
    }

    /// 404 `NotFound`: no route has the path, of those that there are.
    #[must_use]
    pub fn not_found(path: &str, known: &str) -> Self {
        let msg = format!("nothing is served at {path}; there are {known}");
        Self::error(404, "NotFound", &msg)
    }

    /// 405 `MethodNotAllowed`: the path is known, the method is not GET.
    #[must_use]
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let msg = format!("{method} is not allowed on {path}; GET and HEAD are");
        Self::error(405, "MethodNotAllowed", &msg).with_header("allow", "GET, HEAD")
    }

    /// The same with a header more.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header: for tests.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_ref())
    }

    /// The body as text: for tests.
    ///
    /// # Panics
    /// Where it is not UTF-8.
    #[must_use]
    pub fn text_body(&self) -> &str {
        str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body as JSON: for tests.
    ///
    /// # Panics
    /// Where it is not JSON.
    #[must_use]
    pub fn json_body(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

impl From<Response> for handler::Response {
    fn from(answer: Response) -> Self {
        let Response { status, headers, body } = answer;
        let header = |(name, value): (&str, Cow<'_, str>)| handler::Header {
            name: name.to_owned(),
            value: value.into_owned().into_bytes(),
        };
        Self { status, headers: headers.into_iter().map(header).collect(), body }
    }
}

#[cfg(test)]
mod tests {
    use super::Response;
    use crate::contract::NotReady;

    #[test]
    fn what_is_not_known_says_when_to_ask_again() {
        for (nanoseconds, seconds) in
            [(0, "1"), (1, "1"), (2_000_000_000, "2"), (u64::MAX, "18446744074")]
        {
            let reason = NotReady { message: "wait".into(), retry_after: nanoseconds };
            let answer = Response::not_ready(&reason);
            assert_eq!((answer.status, answer.header("Retry-After")), (503, Some(seconds)));
            let body = r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#;
            assert_eq!(answer.text_body(), body);
        }
    }
}
