//! A request with its response, as observers such as an access log or traces get it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hyper::header::{HOST, HeaderValue, REFERER, USER_AGENT};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use relayer_rest_state::TraceContext;

use super::host;
use super::outgoing::HttpResponse;
use crate::registry::MountPath;
use crate::request_metrics::Origin;
use crate::response::{X_RELAYER_MODULE, X_REQUEST_ID};

/// Observes requests, such as for an access log or for traces.
///
/// All functions are called by the threads that serve connections: they must not block.
pub trait RequestObserver: Send + Sync {
    /// Begins to observe a request, by its time and its headers. `None` leaves it out, for
    /// samples.
    fn begin(&self, time: SystemTime, headers: &HeaderMap) -> Option<Box<dyn RequestObservation>>;
}

/// A request that is observed.
pub trait RequestObservation: Send {
    /// Returns the trace of the request, for the log and for requests that the host sends on
    /// its behalf. Default: none.
    fn trace_context(&self) -> Option<TraceContext> {
        None
    }

    /// Observes the request, whose response is complete, or that its client has cancelled.
    fn end(self: Box<Self>, exchange: &Exchange);
}

/// A request, and its response.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Exchange {
    /// The time of the request.
    pub time: SystemTime,
    /// The address of the client; `None` for a Unix socket.
    pub client: Option<IpAddr>,
    /// Whether its connection has TLS.
    pub has_tls: bool,
    /// The method.
    pub method: Method,
    /// The path and the query, as the client has sent them; the whole target with CONNECT.
    pub target: Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The authority of the target, as with HTTP/2, or else the value of `host`.
    pub host: Option<HeaderValue>,
    /// The value of `referer`.
    pub referer: Option<HeaderValue>,
    /// The value of `user-agent`.
    pub user_agent: Option<HeaderValue>,
    /// The time from the request to its response, or to its cancellation.
    pub duration: Duration,
    /// The response; `None` if the client has cancelled the request.
    pub response: Option<ExchangeResponse>,
}

/// The response of an [`Exchange`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExchangeResponse {
    /// The status.
    pub status: StatusCode,
    /// The length of the encoded body, in bytes.
    pub length: usize,
    /// The request id, `x-request-id`.
    pub id: Option<HeaderValue>,
    /// The module, `x-relayer-module`.
    pub module: Option<HeaderValue>,
    /// The handling of the request, unless the host has responded itself.
    pub handling: Option<Handling>,
}

/// The handling of a request by a mount.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Handling {
    /// The mount.
    pub mount: MountPath,
    /// The route, relative to the mount, with the names of parameters in braces; `None`
    /// if the module does not declare it.
    pub route: Option<String>,
    /// How the response was made.
    pub origin: Origin,
}

/// Marks a request that is observed, with its trace if an observer has one.
#[derive(Clone)]
pub(super) struct Observed {
    pub(super) trace: Option<TraceContext>,
}

/// The side of a connection that its requests come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientSide {
    pub(super) address: Option<IpAddr>,
    pub(super) has_tls: bool,
    /// Whether a trusted proxy forwards the requests.
    pub(super) is_forwarded: bool,
}

/// The observers of a server.
#[derive(Clone, Default)]
pub(super) struct Observers(Vec<Arc<dyn RequestObserver>>);

/// A request that is observed. If it is dropped before it is
/// [complete](Self::complete), the client has cancelled the request.
pub(super) struct Observation {
    observations: Vec<Box<dyn RequestObservation>>,
    start: Instant,
    exchange: Exchange,
}

impl ClientSide {
    /// Returns the port of a `host` header without one.
    pub(super) fn default_port(self) -> u16 {
        if self.has_tls { 443 } else { 80 }
    }
}

impl Observers {
    pub(super) fn extend(&mut self, observers: impl IntoIterator<Item = Arc<dyn RequestObserver>>) {
        self.0.extend(observers);
    }

    /// Begins to observe a request, if an observer wants it.
    pub(super) fn begin<B>(
        &self,
        request: &mut Request<B>,
        client: ClientSide,
    ) -> Option<Box<Observation>> {
        if self.0.is_empty() {
            return None;
        }
        let time = SystemTime::now();
        let begin = |observer: &Arc<dyn RequestObserver>| observer.begin(time, request.headers());
        let observations: Vec<_> = self.0.iter().filter_map(begin).collect();
        if observations.is_empty() {
            return None;
        }
        let trace = observations.iter().find_map(|observation| observation.trace_context());
        request.extensions_mut().insert(Observed { trace });
        let header = |name| request.headers().get(name).cloned();
        let exchange = Exchange {
            time,
            client: client.address.map(|address| address.to_canonical()),
            has_tls: client.has_tls,
            method: request.method().clone(),
            target: origin_form(request.uri()),
            version: request.version(),
            host: host::of_target(request).or_else(|| header(HOST)),
            referer: header(REFERER),
            user_agent: header(USER_AGENT),
            duration: Duration::ZERO,
            response: None,
        };
        Some(Box::new(Observation { observations, start: Instant::now(), exchange }))
    }
}

impl Observation {
    /// Observes the response, from which the handling is taken.
    pub(super) fn complete(mut self, response: &mut HttpResponse) {
        let header = |name| response.headers().get(name).cloned();
        let (id, module) = (header(X_REQUEST_ID), header(X_RELAYER_MODULE));
        self.exchange.response = Some(ExchangeResponse {
            status: response.status(),
            length: response.body().bytes().len(),
            id,
            module,
            handling: response.extensions_mut().remove(),
        });
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.exchange.duration = self.start.elapsed();
        for observation in self.observations.drain(..) {
            observation.end(&self.exchange);
        }
    }
}

/// Returns the path and the query of a target; the target itself if it has none.
fn origin_form(target: &Uri) -> Uri {
    match target.path_and_query() {
        Some(path) if target.authority().is_some() => match path.as_str() {
            // The path can be empty then.
            "/" => Uri::from_static("/"),
            _ => Uri::from(path.clone()),
        },
        _ => target.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Uri, origin_form};

    #[test]
    fn the_target_of_an_exchange_is_its_path_and_query() {
        for (target, expected) in [
            ("http://a:1/b?c", "/b?c"),
            ("http://a/", "/"),
            ("http://a", "/"),
            ("http://a?b", "/?b"),
            ("/b?c", "/b?c"),
            ("//b", "//b"),
            ("*", "*"),
            ("a:1", "a:1"),
        ] {
            let target: Uri = target.parse().unwrap();
            assert_eq!(origin_form(&target).to_string(), expected, "{target}");
        }
    }
}
