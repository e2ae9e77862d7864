//! The error responses of the host, which it sends when there is none from a module. They
//! have the form of the API's own errors and do not disclose internals: the log has the
//! cause under the request's id.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};
use relayer_rest_sandbox::CallError;

use super::request_id::RequestId;
use crate::commands::Refusal;
use crate::registry::{Mount, MountPath, RespondErrorKind};
use crate::response::{NOSNIFF, X_REQUEST_ID};
use crate::tokens::TokenRefusal;

/// The reason for a response of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostError {
    /// The module trapped or could not be instantiated, or the host failed.
    Internal,
    /// The module's response violates HTTP, a limit or its grants.
    BadModuleResponse,
    /// The module exceeded its limit of processor time.
    Timeout,
    /// Too many requests are being handled.
    Overloaded,
    /// The client has cancelled too many requests of this connection.
    CancelledTooMany,
    /// The client behind a trusted proxy has too many requests in flight.
    ClientTooMany,
    /// The extension failed too often: its circuit is open for at least this many
    /// seconds.
    ExtensionUnavailable(u32),
    /// The module of the extension at this path is being compiled or checked.
    ExtensionLoading(MountPath),
    /// The module of the extension was rejected.
    ExtensionDisabled,
    /// The request has no host, several, or an invalid one.
    BadHost,
    /// The request's host is not one that is served.
    Misdirected,
    /// The request's target is not a path.
    BadTarget,
    /// The request's method is not implemented for any target.
    NotImplemented,
    /// A precondition of the request is false.
    PreconditionFailed,
    /// The generation that the request requires has not arrived in time.
    Behind,
    /// The generation that the request requires is not one.
    BadGeneration,
    /// The client accepts events only, and the response is not text.
    NotText,
    /// A command of the request was not executed, or may not have been.
    Command(Refusal),
    /// The request's target is too long.
    TargetTooLong,
    /// The request has too many headers.
    HeadersTooMany,
    /// The request's head is too large.
    HeadTooLarge,
    /// The limit of connections is reached, and none is idle.
    ConnectionsTooMany,
    /// The listener has TLS, and the request is plain HTTP.
    #[cfg(feature = "tls")]
    TlsRequired,
    /// The request's body is too large.
    BodyTooLarge,
    /// The request's body violates HTTP.
    BadBody,
    /// The request's body was not received in time.
    RequestTimeout,
}

impl HostError {
    /// Returns the status, the name and the message, which needs no escapes in JSON.
    fn parts(&self) -> (StatusCode, &'static str, Cow<'static, str>) {
        let (status, name, message) = match self {
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Internal",
                "the request could not be handled; the log has the cause under this x-request-id",
            ),
            Self::BadModuleResponse => (
                StatusCode::BAD_GATEWAY,
                "BadModuleResponse",
                "the response of the module is not valid HTTP; the log has the cause under this x-request-id",
            ),
            Self::Timeout => {
                (StatusCode::GATEWAY_TIMEOUT, "Timeout", "the request took too long to handle")
            }
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Overloaded",
                "too many requests are being handled; try again",
            ),
            Self::CancelledTooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyCancelled",
                "too many requests of this connection were cancelled; wait for the responses to earlier ones",
            ),
            Self::ClientTooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "too many requests of this client are being handled; wait for their responses",
            ),
            Self::ExtensionUnavailable(_) | Self::ExtensionLoading(_) | Self::ExtensionDisabled => {
                return self.extension_parts();
            }
            Self::BadHost => {
                (StatusCode::BAD_REQUEST, "BadRequest", "exactly one valid Host header is required")
            }
            Self::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                "MisdirectedRequest",
                "the host of the request is not served here",
            ),
            Self::BadTarget => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "the target of the request is not a path that begins with /",
            ),
            Self::NotImplemented => {
                (StatusCode::NOT_IMPLEMENTED, "NotImplemented", "CONNECT is not implemented")
            }
            Self::PreconditionFailed => (
                StatusCode::PRECONDITION_FAILED,
                "PreconditionFailed",
                "a precondition of the request is false",
            ),
            Self::Behind | Self::BadGeneration => return self.generation_parts(),
            Self::NotText => (
                StatusCode::NOT_ACCEPTABLE,
                "NotAcceptable",
                "the response is not text, which events are; request it without text/event-stream",
            ),
            Self::Command(refusal) => command_parts(*refusal),
            Self::TargetTooLong => {
                (StatusCode::URI_TOO_LONG, "UriTooLong", "the target of the request is too long")
            }
            Self::HeadersTooMany => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "HeadersTooLarge",
                "the request has too many headers",
            ),
            Self::HeadTooLarge => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "HeadersTooLarge",
                "the head of the request is too large",
            ),
            Self::ConnectionsTooMany => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Overloaded",
                "too many connections are open, all of them busy; try again",
            ),
            #[cfg(feature = "tls")]
            Self::TlsRequired => {
                (StatusCode::BAD_REQUEST, "TlsRequired", "this address expects TLS; use https://")
            }
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "PayloadTooLarge",
                "the body of the request is too large; send a smaller one, or none",
            ),
            Self::BadBody => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "the body of the request is not valid HTTP; correct its framing, or send none",
            ),
            Self::RequestTimeout => (
                StatusCode::REQUEST_TIMEOUT,
                "RequestTimeout",
                "the body of the request was not received in time; send it faster, or none",
            ),
        };
        (status, name, message.into())
    }

    /// Returns the parts of the error for a request with a minimum generation.
    fn generation_parts(&self) -> (StatusCode, &'static str, Cow<'static, str>) {
        match self {
            Self::Behind => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Behind",
                "this host does not have the state of x-relayer-min-generation yet; try again"
                    .into(),
            ),
            _ => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "x-relayer-min-generation is not the x-relayer-generation of a response".into(),
            ),
        }
    }

    /// Returns the parts of the error for an extension without a response.
    fn extension_parts(&self) -> (StatusCode, &'static str, Cow<'static, str>) {
        match self {
            Self::ExtensionLoading(mount) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "ExtensionLoading",
                format!("the extension at {mount} is being loaded; try again").into(),
            ),
            Self::ExtensionDisabled => (
                StatusCode::SERVICE_UNAVAILABLE,
                "ExtensionUnavailable",
                "this extension is out of service; the log of the server has the reason".into(),
            ),
            _ => (
                StatusCode::SERVICE_UNAVAILABLE,
                "ExtensionUnavailable",
                "this extension failed too often and is out of service for now; try again later"
                    .into(),
            ),
        }
    }

    /// Returns whether the bytes that follow on the connection may not be a request: the
    /// rest of this request, or data for the tunnel that the client requested.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge | Self::BadBody | Self::RequestTimeout | Self::NotImplemented
        )
    }

    pub(super) fn status(&self) -> StatusCode {
        self.parts().0
    }

    pub(super) fn name(&self) -> &'static str {
        self.parts().1
    }

    /// Returns the bytes of the response to a connection that is not served.
    pub(super) fn raw_response(&self) -> Vec<u8> {
        let id = RequestId::from_headers(&HeaderMap::new());
        let response = self.response();
        let status = response.status();
        let length = response.body().len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{X_REQUEST_ID}: {id}\r\n"
        )
        .into_bytes();
        for (name, value) in response.headers() {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
        bytes.extend(response.body());
        bytes
    }

    pub(super) fn response(&self) -> Response<Bytes> {
        let (status, name, msg) = self.parts();
        let body = format!(r#"{{"status":"error","result":{{"name":"{name}","msg":"{msg}"}}}}"#);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        let retry_after = match self {
            Self::Overloaded
            | Self::ConnectionsTooMany
            | Self::CancelledTooMany
            | Self::ClientTooMany
            | Self::Behind
            | Self::ExtensionLoading(_)
            | Self::Command(Refusal::Busy) => Some(1),
            Self::ExtensionUnavailable(seconds) => Some(*seconds),
            _ => None,
        };
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if *self == Self::Command(Refusal::Client(TokenRefusal::Unauthorized)) {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Returns the parts of the error for a command.
fn command_parts(refusal: Refusal) -> (StatusCode, &'static str, &'static str) {
    match refusal {
        Refusal::Client(TokenRefusal::Unauthorized) => (
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "a command needs the header authorization: Bearer TOKEN",
        ),
        Refusal::Client(TokenRefusal::Forbidden) => {
            (StatusCode::FORBIDDEN, "Forbidden", "the token is not known; nothing was executed")
        }
        Refusal::Disabled => (
            StatusCode::FORBIDDEN,
            "CommandDisabled",
            "commands are disabled; set clear-packets = true in [commands] of the settings",
        ),
        Refusal::HasBody => (
            StatusCode::BAD_REQUEST,
            "CommandHasBody",
            "a command has no body: the relayer would ignore it and clear more than it names; use the query, such as ?chain=ID",
        ),
        Refusal::NoRelayer => (
            StatusCode::SERVICE_UNAVAILABLE,
            "NoRelayer",
            "there is no relayer that executes commands; start with --upstream",
        ),
        Refusal::Busy => (
            StatusCode::TOO_MANY_REQUESTS,
            "CommandInProgress",
            "another command for this chain is in progress; try again",
        ),
        Refusal::Failed => (
            StatusCode::BAD_GATEWAY,
            "CommandFailed",
            "the relayer did not accept the command; the log has the cause under this x-request-id",
        ),
        Refusal::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "CommandTimeout",
            "the relayer did not respond in time; it may still execute the command",
        ),
    }
}

impl HostError {
    /// Returns the error for a request to a mount that has no module.
    pub(super) fn without_module(mount: &Mount) -> Self {
        match mount.reason_disabled() {
            Some(_) => Self::ExtensionDisabled,
            None => Self::ExtensionLoading(mount.path().clone()),
        }
    }
}

impl From<&RespondErrorKind> for HostError {
    fn from(cause: &RespondErrorKind) -> Self {
        match cause {
            RespondErrorKind::Failed(error) => match **error {
                CallError::Instantiate(_) | CallError::Trap(_) | CallError::Host(_) => {
                    Self::Internal
                }
                CallError::Timeout(..) => Self::Timeout,
                CallError::Overloaded | CallError::Starved(_) => Self::Overloaded,
                CallError::Invalid(_) => Self::BadModuleResponse,
            },
            RespondErrorKind::OutOfService { retry_after } => {
                let seconds = retry_after.as_millis().div_ceil(1_000).max(1);
                Self::ExtensionUnavailable(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
        }
    }
}
