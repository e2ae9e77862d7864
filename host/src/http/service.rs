//! One request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response};
use tracing::{Instrument, debug, error, info_span, warn};

use super::error::HostError;
use super::reply;
use super::request_id::{RequestId, X_REQUEST_ID};
use crate::answer::Answer;
use crate::module::{CallError, Module, ModuleRequest};
use crate::response_cache::ResponseCache;
use crate::state::StateReader;

/// What requests are answered with.
pub(super) struct Service {
    module: Module,
    cache: ResponseCache,
    state: StateReader,
}

impl Service {
    pub(super) fn new(module: Module, state: StateReader) -> Self {
        let cache = ResponseCache::new(module.limits().response_cache);
        Self { module, cache, state }
    }

    /// Answers a request. Its body is of no interest: the API only reads.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        let (head, _) = request.into_parts();
        let id = RequestId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        let request = module_request(head);
        let remembered = self.cache.find(&self.module, &request, &self.state.peek());
        let mut response = match remembered {
            Some(answer) => {
                debug!(%id, target = %request.target, status = answer.status().as_u16(), "remembered");
                self.reply(&answer, &request).await
            }
            None => self.ask(request, &id).await,
        };
        response.headers_mut().insert(X_REQUEST_ID, id.into_header());
        reply::finish(response, is_head)
    }

    /// The module's answer, or the host's where there is none.
    async fn ask(&self, request: ModuleRequest, id: &RequestId) -> Response<Bytes> {
        let request = Arc::new(request);
        let path = request.target.path();
        let span = info_span!("request", %id, method = %request.method, path);
        let asked = self.cache.ask(&self.module, Arc::clone(&request), &self.state);
        let response = match asked.instrument(span.clone()).await {
            Ok(answer) => self.reply(&answer, &request).await,
            Err(cause) => {
                span.in_scope(|| report(&self.module, &cause));
                HostError::from(&*cause).response()
            }
        };
        span.in_scope(|| debug!(status = response.status().as_u16(), "answered"));
        response
    }

    async fn reply(&self, answer: &Answer, request: &ModuleRequest) -> Response<Bytes> {
        let stale = self.state.peek().stale();
        reply::reply(answer, request, stale).await
    }
}

/// What the module is asked: HEAD as GET, since its answer is the same.
fn module_request(head: Parts) -> ModuleRequest {
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let target = head.uri.into_parts().path_and_query;
    let target = target.unwrap_or(PathAndQuery::from_static("/"));
    ModuleRequest { method, target, headers: head.headers }
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
