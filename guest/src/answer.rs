//! Answers, and the errors of this API with their statuses.

use serde::Serialize;

use crate::contract::NotReady;
use crate::dialect::Dialect;

/// What a route answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, in their order.
    pub headers: Vec<(&'static str, String)>,
    /// The body: JSON, or nothing.
    pub body: Vec<u8>,
}

/// What answers are wrapped in, but for the list of versions in 0.7.
#[derive(Serialize)]
struct Envelope<T> {
    status: &'static str,
    result: T,
}

/// The result of an error.
#[derive(Serialize)]
struct Error<'a> {
    name: &'static str,
    msg: &'a str,
}

impl Answer {
    /// A result, bare.
    pub(crate) fn bare(value: &impl Serialize) -> Self {
        Self::json(200, value, 0)
    }

    /// A result in its envelope.
    pub(crate) fn success(result: impl Serialize) -> Self {
        Self::success_of_size(result, 0)
    }

    /// A result in its envelope, whose JSON is about `size` bytes long.
    pub(crate) fn success_of_size(result: impl Serialize, size: usize) -> Self {
        Self::json(200, &Envelope { status: "success", result }, size)
    }

    /// A result in its envelope, which is written behind what is there.
    pub(crate) fn success_written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut body = br#"{"status":"success","result":"#.to_vec();
        write(&mut body);
        body.push(b'}');
        Self::of_body(200, body)
    }

    /// No chain has the identifier that was asked for.
    pub(crate) fn chain_not_found(dialect: Dialect, id: &str) -> Self {
        let msg = format!("could not find configuration for chain: {id}");
        let status = match dialect {
            Dialect::V0_7 => 404,
            Dialect::V1_13 => 200,
        };
        Self::error(status, "ChainConfigNotFound", &msg)
    }

    /// The identifier that was asked for is not text.
    pub(crate) fn invalid_chain_id(segment: &str) -> Self {
        let msg = format!("the chain identifier '{segment}' is not UTF-8 when percent-decoded");
        Self::error(400, "InvalidChainId", &msg)
    }

    /// No route has the path that was asked for.
    pub(crate) fn not_found(dialect: Dialect, path: &str, known: &str) -> Self {
        if dialect == Dialect::V1_13 {
            return Self::empty(404);
        }
        let msg = format!("nothing is served at {path}; there are {known}");
        Self::error(404, "NotFound", &msg)
    }

    /// The path is known, the method is not.
    pub(crate) fn method_not_allowed(dialect: Dialect, method: &str, path: &str) -> Self {
        if dialect == Dialect::V1_13 {
            return Self::empty(405).with_header("allow", "GET,HEAD".to_owned());
        }
        let msg = format!("{method} is not allowed on {path}; GET and HEAD are");
        Self::error(405, "MethodNotAllowed", &msg).with_header("allow", "GET, HEAD".to_owned())
    }

    /// What was asked for is not known.
    pub(crate) fn not_ready(reason: &NotReady) -> Self {
        let seconds = reason.retry_after.div_ceil(1_000_000_000).max(1);
        Self::error(503, "NotReady", &reason.message)
            .with_header("retry-after", seconds.to_string())
    }

    fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    fn error(status: u16, name: &'static str, msg: &str) -> Self {
        Self::json(status, &Envelope { status: "error", result: Error { name, msg } }, 0)
    }

    fn json(status: u16, value: &impl Serialize, size: usize) -> Self {
        let mut body = Vec::with_capacity(size.max(128));
        serde_json::to_writer(&mut body, value)
            .expect("writing to memory succeeds and every key is a text");
        Self::of_body(status, body)
    }

    fn of_body(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}
