//! Which of the declared routes were exercised.

use relayer_rest_conformance::Recorded;
use relayer_rest_sandbox::{OpenApi, Route};
use serde::Serialize;

/// A request and the status of its response.
pub(super) struct Exchange {
    /// The method and target.
    pub(super) request: String,
    pub(super) status: Option<u16>,
    /// Whether the author expects this response.
    pub(super) is_expected: bool,
}

/// A declared route, and whether it was exercised.
#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    /// The method and path, such as `GET /chain/{id}`.
    pub(super) route: String,
    /// Whether a request got a response that is not an error, or that its author expects.
    pub(super) exercised: bool,
    /// That request, or another one for the route.
    pub(super) request: Option<String>,
    /// The status of the response to it.
    pub(super) status: Option<u16>,
}

impl Exchange {
    pub(super) fn from_recorded(recorded: &Recorded) -> Self {
        let status = recorded.outcome.as_ref().ok().map(|response| response.status().as_u16());
        Self { request: recorded.request.clone(), status, is_expected: false }
    }

    /// Returns the target of a GET that was a success.
    pub(super) fn successful_target(&self) -> Option<&str> {
        let is_success = self.status.is_some_and(|status| (200..300).contains(&status));
        self.request.strip_prefix("GET ").filter(|_| is_success)
    }

    fn exercises(&self) -> bool {
        self.status.is_some_and(|status| self.is_expected || status < 400)
    }

    /// Returns whether the request is for a declared route.
    pub(super) fn is_declared(&self, openapi: &OpenApi) -> bool {
        openapi.operations().any(|(route, method)| self.is_for(openapi, route, method))
    }

    /// Returns whether the request is for a route, with this method in lower case.
    fn is_for(&self, openapi: &OpenApi, route: &Route, method: &str) -> bool {
        let (own, target) = self.request.split_once(' ').unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        // The server handles HEAD as GET.
        let method = if method == "head" { "get" } else { method };
        own.eq_ignore_ascii_case(method)
            && openapi.route(path).is_some_and(|found| found.index() == route.index())
    }
}

/// Returns the report on each declared operation.
pub(super) fn reports(openapi: &OpenApi, exchanges: &[Exchange]) -> Vec<RouteReport> {
    let report = |(route, method): (&Route, &str)| {
        let own = || exchanges.iter().filter(|exchange| exchange.is_for(openapi, route, method));
        let exercising = own().find(|exchange| exchange.exercises());
        let exchange = exercising.or_else(|| own().next());
        RouteReport {
            route: format!("{} {}", method.to_ascii_uppercase(), route.path()),
            exercised: exercising.is_some(),
            request: exchange.map(|exchange| exchange.request.clone()),
            status: exchange.and_then(|exchange| exchange.status),
        }
    };
    openapi.operations().map(report).collect()
}
