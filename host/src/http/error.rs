//! The answers that the host makes itself, when it has none from a module.
//! They have the shape of the API's own errors, and tell nothing of what went
//! on inside: the log has that under the request's id.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::module::CallError;

/// Why the host answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostError {
    /// The module trapped, or could not be started.
    Internal,
    /// The module answered what HTTP does not allow.
    BadModuleResponse,
    /// The module took too long.
    Timeout,
    /// Too many requests are being served.
    Overloaded,
}

impl HostError {
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Internal",
                "the request could not be handled; the log has the cause under this x-request-id",
            ),
            Self::BadModuleResponse => (
                StatusCode::BAD_GATEWAY,
                "BadModuleResponse",
                "the answer to the request is not valid HTTP; the log has the cause under this x-request-id",
            ),
            Self::Timeout => {
                (StatusCode::GATEWAY_TIMEOUT, "Timeout", "the request took too long to handle")
            }
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Overloaded",
                "too many requests are being handled; try again",
            ),
        }
    }

    pub(super) fn response(self) -> Response<Bytes> {
        let (status, name, msg) = self.parts();
        let body = format!(r#"{{"status":"error","result":{{"name":"{name}","msg":"{msg}"}}}}"#);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self == Self::Overloaded {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<&CallError> for HostError {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::Instantiate(_) | CallError::Trap(_) | CallError::Host(_) => Self::Internal,
            CallError::Timeout(_) => Self::Timeout,
            CallError::Overloaded => Self::Overloaded,
            CallError::Invalid(_) => Self::BadModuleResponse,
        }
    }
}
