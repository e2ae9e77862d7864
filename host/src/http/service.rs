//! One request, from its head to its answer.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AGE, CONTENT_LENGTH, HeaderValue, VARY, WARNING};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tracing::{Instrument, debug, error, info_span, warn};

use super::error::HostError;
use super::request_id::{RequestId, X_REQUEST_ID};
use crate::module::{CallError, Module, ModuleAnswer, ModuleRequest, Reads};
use crate::state::{Stale, StateReader};

/// What requests are answered with.
pub(super) struct Service {
    module: Module,
    state: StateReader,
}

impl Service {
    pub(super) fn new(module: Module, state: StateReader) -> Self {
        Self { module, state }
    }

    /// Answers a request. Its body is of no interest: the API only reads.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        let (head, _) = request.into_parts();
        let id = RequestId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        let span = info_span!("request", %id, method = %head.method, path = head.uri.path());
        let mut response = self.ask(head).instrument(span.clone()).await;
        response.headers_mut().insert(X_REQUEST_ID, id.into_header());
        span.in_scope(|| debug!(status = response.status().as_u16(), "answered"));
        finish(response, is_head)
    }

    /// The module's answer, or the host's where there is none.
    async fn ask(&self, head: Parts) -> Response<Bytes> {
        let snapshot = self.state.snapshot();
        let stale = snapshot.stale();
        match self.module.handle(module_request(head), snapshot).await {
            Ok(ModuleAnswer { response, reads }) => {
                with_age(with_vary(response, &reads), &reads, stale)
            }
            Err(cause) => {
                report(&self.module, &cause);
                HostError::from(&cause).response()
            }
        }
    }
}

/// What the module is asked: HEAD as GET, since its answer is the same.
fn module_request(head: Parts) -> ModuleRequest {
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let path = match head.uri.path() {
        "" => "/",
        path => path,
    };
    ModuleRequest {
        method: method.to_string(),
        path: path.to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
    }
}

/// Puts into the log what a client is not told, in one line whatever names a
/// module has in it.
fn report(module: &Module, cause: &CallError) {
    let module = module.digest().short();
    let message = cause.to_string();
    let message = message.escape_debug();
    if matches!(cause, CallError::Overloaded) {
        warn!(%module, "{message}");
    } else {
        error!(%module, "{message}");
    }
}

/// Says which headers of the request the answer depends on, where the module
/// does not say so itself.
fn with_vary(mut answer: Response<Bytes>, reads: &Reads) -> Response<Bytes> {
    if !answer.headers().contains_key(VARY) {
        for name in reads.headers() {
            answer.headers_mut().append(VARY, HeaderValue::from(name.clone()));
        }
    }
    answer
}

/// Says how old a good answer is, where it is made of what is no longer
/// confirmed.
fn with_age(mut answer: Response<Bytes>, reads: &Reads, stale: Option<Stale>) -> Response<Bytes> {
    if let Some(stale) = stale
        && answer.status().is_success()
        && reads.touch(stale)
    {
        let headers = answer.headers_mut();
        headers.insert(AGE, stale.since.elapsed().as_secs().into());
        headers.insert(WARNING, HeaderValue::from_static("110 - \"Response is Stale\""));
    }
    answer
}

/// Leaves the body out where HTTP has none.
fn finish(mut response: Response<Bytes>, is_head: bool) -> Response<Full<Bytes>> {
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
