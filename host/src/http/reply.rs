//! An answer, as this client wants it: compressed or not, or nothing where it
//! has got it already.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, ETAG, EXPIRES, HeaderMap, HeaderName,
    HeaderValue, VARY, WARNING,
};
use hyper::{Method, Response, StatusCode};

use super::{accept_encoding, conditional};
use crate::answer::Answer;
use crate::module::ModuleRequest;
use crate::state::Stale;

/// What an answer's headers say when there is nothing new.
const OF_NOT_MODIFIED: [HeaderName; 5] = [CACHE_CONTROL, CONTENT_LOCATION, ETAG, EXPIRES, VARY];

pub(super) async fn reply(
    answer: &Answer,
    request: &ModuleRequest,
    stale: Option<Stale>,
) -> Response<Bytes> {
    let encoding =
        if answer.is_compressible() { accept_encoding::preferred(&request.headers) } else { None };
    let representation = match encoding {
        Some(encoding) => answer.encoded(encoding).await,
        None => answer.plain(),
    };
    let is_known = request.method == Method::GET
        && answer.status().is_success()
        && conditional::is_known(&request.headers, &representation.headers);
    let mut response = if is_known {
        not_modified(&representation.headers)
    } else {
        let mut response = Response::new(representation.body.clone());
        *response.status_mut() = answer.status();
        *response.headers_mut() = representation.headers.clone();
        response
    };
    if let Some(stale) = stale
        && answer.status().is_success()
        && answer.reads().touch(stale)
    {
        add_age(response.headers_mut(), stale);
    }
    response
}

fn not_modified(headers: &HeaderMap) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    for name in OF_NOT_MODIFIED {
        for value in headers.get_all(&name) {
            response.headers_mut().append(&name, value.clone());
        }
    }
    response
}

/// Says how old an answer is that is made of what is no longer confirmed.
fn add_age(headers: &mut HeaderMap, stale: Stale) {
    headers.insert(AGE, stale.since.elapsed().as_secs().into());
    headers.insert(WARNING, HeaderValue::from_static("110 - \"Response is Stale\""));
}

/// Leaves the body out where HTTP has none.
pub(super) fn finish(mut response: Response<Bytes>, is_head: bool) -> Response<Full<Bytes>> {
    let has_body = !matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    if is_head && has_body {
        let length = HeaderValue::from(response.body().len());
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    let leave_out = is_head || !has_body;
    response.map(|body| Full::new(if leave_out { Bytes::new() } else { body }))
}
