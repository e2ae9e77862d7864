//! One request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::Either;
use http_body_util::Full;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response};
use tracing::{Instrument, debug, error, info_span, warn};

use super::error::HostError;
use super::reply;
use super::request_id::{RequestId, X_REQUEST_ID};
use crate::module::{CallError, Module, ModuleRequest};
use crate::response_cache::{Question, ResponseCache};
use crate::state::StateReader;

/// What requests are answered with.
pub(super) struct Service {
    module: Module,
    cache: ResponseCache,
    state: StateReader,
}

/// What goes out.
pub(super) type Answered = Response<Full<Bytes>>;

impl Service {
    pub(super) fn new(module: Module, state: StateReader) -> Self {
        let cache = ResponseCache::new(module.limits().response_cache);
        Self { module, cache, state }
    }

    /// Answers a request. Its body is of no interest: the API only reads.
    ///
    /// What is remembered is answered at once, which leaves nothing of the
    /// request behind: the connection can use its memory for the next one.
    pub(super) fn answer<B>(
        self: &Arc<Self>,
        request: Request<B>,
    ) -> Either<Answered, impl Future<Output = Answered> + use<B>> {
        let id = RequestId::of(request.headers());
        match self.remembered(&request, &id) {
            Some(response) => Either::Left(identified(response, id)),
            None => Either::Right(Arc::clone(self).ask(request, id)),
        }
    }

    /// The answer, where it is remembered in the form that the client wants.
    fn remembered<B>(&self, request: &Request<B>, id: &RequestId) -> Option<Answered> {
        let snapshot = self.state.peek();
        let answer = self.cache.find(&self.module, question(request), &snapshot)?;
        let representation = answer.made(reply::encoding(&answer, request.headers()))?;
        let (status, path) = (answer.status().as_u16(), request.uri().path());
        debug!(%id, method = %request.method(), path, status, "remembered");
        Some(reply::reply(&answer, representation, request, snapshot.stale()))
    }

    /// The module's answer, or the host's where there is none.
    async fn ask<B>(self: Arc<Self>, request: Request<B>, id: RequestId) -> Answered {
        let request = request.map(drop);
        let (method, path) = (request.method(), request.uri().path());
        let span = info_span!("request", %id, %method, path);
        let asked = self.cache.ask(&self.module, module_request(&request), &self.state);
        let response = match asked.instrument(span.clone()).await {
            Ok(answer) => {
                let encoding = reply::encoding(&answer, request.headers());
                let representation = answer.encoded(encoding).await;
                reply::reply(&answer, representation, &request, self.state.peek().stale())
            }
            Err(cause) => {
                span.in_scope(|| report(&self.module, &cause));
                reply::of_host(HostError::from(&*cause), &request)
            }
        };
        span.in_scope(|| debug!(status = response.status().as_u16(), "answered"));
        identified(response, id)
    }
}

fn identified(mut response: Answered, id: RequestId) -> Answered {
    response.headers_mut().insert(X_REQUEST_ID, id.into_header());
    response
}

/// What the module is asked: HEAD as GET, since its answer is the same.
fn question<B>(request: &Request<B>) -> Question<'_> {
    static GET: Method = Method::GET;
    let method = if *request.method() == Method::HEAD { &GET } else { request.method() };
    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    Question { method, target, headers: request.headers() }
}

/// The same, to keep.
fn module_request<B>(request: &Request<B>) -> Arc<ModuleRequest> {
    let Question { method, headers, .. } = question(request);
    let target = request.uri().path_and_query().cloned();
    Arc::new(ModuleRequest {
        method: method.clone(),
        target: target.unwrap_or(PathAndQuery::from_static("/")),
        headers: headers.clone(),
    })
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
