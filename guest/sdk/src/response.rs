//! Responses, and errors in the format of this API.

use std::borrow::Cow;

use serde::Serialize;

use crate::bindings::exports::relayer::rest::handler;
use crate::contract::NotReady;
use crate::parameter::InvalidParameter;

/// A response. If its status or a header is invalid, or if it exceeds a limit, the host
/// replaces it with 502 `BadModuleResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status: 200 to 599.
    pub status: u16,
    /// The headers, in their order. The host adds the headers that frame the message and,
    /// if they are not set, `etag` to a successful GET, `vary` with the headers that were
    /// read, `cache-control` and `x-content-type-options`.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The envelope of results.
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
    /// Creates a response without headers and body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Creates a response with status 200 and a body of a content type, such as
    /// `text/html; charset=utf-8`.
    #[must_use]
    pub fn of_type(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", Cow::Borrowed(content_type))];
        Self { status: 200, headers, body: body.into() }
    }

    /// Creates a response with status 200 and plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::of_type("text/plain; charset=utf-8", text.into())
    }

    /// Creates a response with a value as JSON.
    ///
    /// # Panics
    /// Panics if the value cannot be serialized as JSON, such as a map whose keys are
    /// structs.
    #[must_use]
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        Self::json_of_size(status, value, 0)
    }

    /// Creates a response with a value as JSON, for which `size` bytes are reserved.
    ///
    /// # Panics
    /// Panics if the value cannot be serialized as JSON.
    #[must_use]
    pub fn json_of_size(status: u16, value: &impl Serialize, size: usize) -> Self {
        let mut body = Vec::with_capacity(size.max(128));
        serde_json::to_writer(&mut body, value)
            .expect("writing to memory succeeds and every key is a text");
        Self::json_written(status, body)
    }

    /// Creates a response from a body that is JSON already.
    #[must_use]
    pub fn json_written(status: u16, body: Vec<u8>) -> Self {
        Self::of_type("application/json", body).with_status(status)
    }

    /// Creates a response with status 200 and `{"status":"success","result":…}`.
    #[must_use]
    pub fn success(result: impl Serialize) -> Self {
        Self::success_of_size(result, 0)
    }

    /// Creates a response like [`Self::success`], with `size` bytes reserved for the
    /// JSON.
    #[must_use]
    pub fn success_of_size(result: impl Serialize, size: usize) -> Self {
        Self::json_of_size(200, &Envelope { status: "success", result }, size)
    }

    /// Creates a response with `{"status":"error","result":{"name":…,"msg":…}}`: the name
    /// is for programs, the message for people.
    #[must_use]
    pub fn error(status: u16, name: &str, msg: &str) -> Self {
        Self::json(status, &Envelope { status: "error", result: Error { name, msg } })
    }

    /// Creates the response 503 `NotReady`, for data that the host does not have yet. Its
    /// `retry-after` is that of the reason, rounded up to whole seconds, at least 1.
    #[must_use]
    pub fn not_ready(reason: &NotReady) -> Self {
        let seconds = reason.retry_after.div_ceil(1_000_000_000).max(1);
        Self::error(503, "NotReady", &reason.message)
            .with_header("retry-after", seconds.to_string())
    }

    /// Creates the response 404 `NotFound`, whose message lists the known paths.
    #[must_use]
    pub fn not_found(path: &str, known: &str) -> Self {
        let msg = format!("nothing is served at {path}; there are {known}");
        Self::error(404, "NotFound", &msg)
    }

    /// Creates the response 405 `MethodNotAllowed`, for a known path and a method other
    /// than GET.
    #[must_use]
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let msg = format!("{method} is not allowed on {path}; GET and HEAD are");
        Self::error(405, "MethodNotAllowed", &msg).with_header("allow", "GET, HEAD")
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds a header, after any others with the same name.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the value of the first header with this name, for tests. The name is
    /// case-insensitive.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_ref())
    }

    /// Returns the body as text, for tests.
    ///
    /// # Panics
    /// Panics if the body is not UTF-8.
    #[must_use]
    pub fn text_body(&self) -> &str {
        str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// Returns the body as JSON, for tests.
    ///
    /// # Panics
    /// Panics if the body is not JSON.
    #[must_use]
    pub fn json_body(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// Lets `?` end a handler with 503 if the host does not have the data yet.
impl From<NotReady> for Response {
    fn from(reason: NotReady) -> Self {
        Self::not_ready(&reason)
    }
}

/// Lets `?` end a handler with 400 `InvalidParameter`.
impl From<InvalidParameter> for Response {
    fn from(error: InvalidParameter) -> Self {
        Self::error(400, "InvalidParameter", &error.to_string())
    }
}

/// Returns the response of a handler, which `?` may have ended.
impl From<Result<Self, Self>> for Response {
    fn from(result: Result<Self, Self>) -> Self {
        result.unwrap_or_else(|ended| ended)
    }
}

impl From<Response> for handler::Response {
    fn from(response: Response) -> Self {
        let Response { status, headers, body } = response;
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
    fn not_ready_responses_have_retry_after() {
        for (nanoseconds, seconds) in
            [(0, "1"), (1, "1"), (2_000_000_000, "2"), (u64::MAX, "18446744074")]
        {
            let reason = NotReady { message: "wait".into(), retry_after: nanoseconds };
            let response = Response::not_ready(&reason);
            assert_eq!((response.status, response.header("Retry-After")), (503, Some(seconds)));
            let body = r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#;
            assert_eq!(response.text_body(), body);
        }
    }
}
