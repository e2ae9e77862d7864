//! An answer, as this client wants it: compressed or not, or nothing where it
//! has got it already.

use bytes::Bytes;
use hyper::header::{
    AGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, WARNING,
};
use hyper::{Method, Request, Response, StatusCode};

use super::error::HostError;
use super::outgoing::Outgoing;
use super::service::Answered;
use super::{accept_encoding, conditional};
use crate::answer::{Answer, Encoding, Representation};
use crate::state::Stale;

/// What an answer says of its body, and nothing where there is none.
const OF_A_BODY: [HeaderName; 4] =
    [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE];

/// The encoding that a client would like, where the answer has any.
pub(super) fn encoding(answer: &Answer, headers: &HeaderMap) -> Option<Encoding> {
    if answer.is_compressible() { accept_encoding::preferred(headers) } else { None }
}

/// The response to a request, of an answer in the encoding that was chosen.
pub(super) fn reply<B>(
    answer: &Answer,
    representation: &Representation,
    request: &Request<B>,
    stale: Option<Stale>,
) -> Answered {
    let Representation { headers, body } = representation;
    let is_success = answer.status().is_success();
    let is_known = is_success
        && matches!(*request.method(), Method::GET | Method::HEAD)
        && conditional::is_known(request.headers(), headers);
    let mut response = if is_known {
        response(StatusCode::NOT_MODIFIED, not_modified(headers), &Bytes::new(), request)
    } else {
        response(answer.status(), headers.clone(), body, request)
    };
    if let Some(stale) = stale
        && is_success
        && answer.reads().touch(stale)
    {
        add_age(response.headers_mut(), stale);
    }
    response
}

/// The response to a request for which there is no answer.
pub(super) fn of_host<B>(error: HostError, request: &Request<B>) -> Answered {
    let (head, body) = error.response().into_parts();
    response(head.status, head.headers, &body, request)
}

/// A response, without the body where HTTP has none.
fn response<B>(
    status: StatusCode,
    headers: HeaderMap,
    body: &Bytes,
    request: &Request<B>,
) -> Answered {
    let has_body = !matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let is_head = *request.method() == Method::HEAD;
    let sent = if has_body && !is_head { body.clone() } else { Bytes::new() };
    let mut response = Response::new(Outgoing::new(sent));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if has_body && is_head {
        response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    }
    response
}

/// The headers of an answer that the client has got already.
fn not_modified(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OF_A_BODY {
        headers.remove(name);
    }
    headers
}

/// Says how old an answer is that is made of what is no longer confirmed.
fn add_age(headers: &mut HeaderMap, stale: Stale) {
    headers.insert(AGE, stale.since.elapsed().as_secs().into());
    headers.insert(WARNING, HeaderValue::from_static("110 - \"Response is Stale\""));
}
