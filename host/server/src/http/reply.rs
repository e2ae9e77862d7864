//! The HTTP response for one client: encoded or not, without a body if the client has it
//! already, or an error if a precondition is false.

use std::time::Instant;

use bytes::Bytes;
use hyper::header::{
    AGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, WARNING,
};
use hyper::{Method, Request, StatusCode};
use relayer_rest_state::Snapshot;

use super::accept_encoding;
use super::conditional::{self, Outcome};
use super::error::HostError;
use super::outgoing::{HttpResponse, Outgoing};
use crate::response::{Encoding, Representation, Response, X_RELAYER_MODULE};

/// The headers that describe a body, which responses with 304 do not have.
const BODY_HEADERS: [HeaderName; 4] =
    [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE];

/// Returns the encoding that a client prefers, if the response is compressible.
pub(super) fn encoding(module_response: &Response, headers: &HeaderMap) -> Option<Encoding> {
    let is_compressible = module_response.is_compressible();
    is_compressible.then(|| accept_encoding::preferred(headers, &Encoding::ALL)).flatten()
}

/// Returns the HTTP response to a request, from a module's response in the chosen
/// encoding.
pub(super) fn reply<B>(
    module_response: &Response,
    representation: &Representation,
    request: &Request<B>,
    snapshot: &Snapshot,
) -> HttpResponse {
    let Representation { headers, body } = representation;
    // RFC 9110, 13.2.1: preconditions apply if the response would be a success.
    if !module_response.status().is_success() {
        return response(module_response.status(), headers.clone(), body, request);
    }
    let mut response = on_condition(module_response.status(), headers, body, request);
    if response.status() != StatusCode::PRECONDITION_FAILED
        && let Some(since) = module_response.reads().stale_since(snapshot)
    {
        add_age(response.headers_mut(), since);
    }
    response
}

/// Returns the HTTP response to a request for a resource of the host.
pub(super) fn resource<B>(headers: &HeaderMap, body: &Bytes, request: &Request<B>) -> HttpResponse {
    on_condition(StatusCode::OK, headers, body, request)
}

/// Returns the HTTP response to a request whose preconditions apply.
fn on_condition<B>(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
    request: &Request<B>,
) -> HttpResponse {
    match conditional::evaluate(request.method(), request.headers(), headers) {
        Outcome::Proceed => response(status, headers.clone(), body, request),
        Outcome::NotModified => {
            response(StatusCode::NOT_MODIFIED, not_modified(headers), &Bytes::new(), request)
        }
        Outcome::Failed => {
            let mut response = host_error(&HostError::PreconditionFailed, request);
            let label = headers.get(X_RELAYER_MODULE).cloned();
            response.headers_mut().extend(label.map(|label| (X_RELAYER_MODULE, label)));
            response
        }
    }
}

/// Returns the HTTP response to a request that failed with an error of the host.
pub(super) fn host_error<B>(error: &HostError, request: &Request<B>) -> HttpResponse {
    of_host(&error.response(), request)
}

/// Returns the HTTP response to a request, from a response of the host.
pub(super) fn of_host<B>(of_host: &hyper::Response<Bytes>, request: &Request<B>) -> HttpResponse {
    response(of_host.status(), of_host.headers().clone(), of_host.body(), request)
}

/// Returns whether a client has the response with these headers already.
pub(super) fn is_known<B>(headers: &HeaderMap, request: &Request<B>) -> bool {
    let outcome = conditional::evaluate(request.method(), request.headers(), headers);
    outcome == Outcome::NotModified
}

/// Returns an HTTP response, without the body if HTTP does not allow one.
fn response<B>(
    status: StatusCode,
    headers: HeaderMap,
    body: &Bytes,
    request: &Request<B>,
) -> HttpResponse {
    let has_body = !matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let is_head = *request.method() == Method::HEAD;
    let sent = if has_body && !is_head { body.clone() } else { Bytes::new() };
    let mut response = hyper::Response::new(Outgoing::new(sent));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if has_body && is_head {
        response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    }
    response
}

/// Returns the headers of a response that the client has already.
fn not_modified(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in BODY_HEADERS {
        headers.remove(name);
    }
    headers
}

/// Adds the age of a response that was derived from stale state.
fn add_age(headers: &mut HeaderMap, since: Instant) {
    headers.insert(AGE, since.elapsed().as_secs().into());
    headers.insert(WARNING, HeaderValue::from_static("110 - \"Response is Stale\""));
}
