//! Exercises a module's own routes, for `check` and `dev`: the ones that it declares, and the
//! requests of its author.
//!
//! | file | job |
//! |---|---|
//! | `requests.rs` | the requests of an author: of a file, and of the command line |
//! | `http_file.rs` | parses a file `requests.http` |
//! | `expected.rs` | the expected response to a request |
//! | `openapi.rs` | validates responses against the declared routes |
//! | `routes.rs` | which declared routes were exercised |
//! | `volatile.rs` | which responses change with each publication of the state |
//! | `text.rs` | the result as text |

mod expected;
mod http_file;
mod openapi;
mod requests;
mod routes;
mod text;
mod volatile;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use relayer_rest_common::text::{truncate, truncate_at};
use relayer_rest_conformance as conformance;
use relayer_rest_conformance::RuleVerdict;
use relayer_rest_sandbox::{GuestRequest, Module, OpenApi};
use relayer_rest_sources::sample;
use relayer_rest_state::{Snapshot, StatePublisher};
use serde::Serialize;

use requests::AuthorRequest;
pub(super) use requests::{AuthorRequests, FILE as REQUESTS_FILE, RequestsArgs};
use routes::{Exchange, RouteReport};
use volatile::Volatile;

/// The maximum length of a body in a report, in characters.
const MAX_BODY: usize = 4000;

/// The result of exercising a module's own routes.
#[derive(Debug, Serialize)]
pub(super) struct Exercise {
    /// The declared routes.
    routes: Vec<RouteReport>,
    /// The requests of the author.
    requests: Vec<RequestReport>,
    /// The requests of the author that succeed, although the module does not declare their routes.
    undeclared: Vec<UndeclaredRequest>,
    /// The responses that change with each publication of the state.
    volatile: Vec<Volatile>,
    /// Whether the module declares routes.
    #[serde(skip)]
    has_document: bool,
}

/// A request for a route that the module serves, but does not declare.
#[derive(Debug, Serialize)]
struct UndeclaredRequest {
    /// The method and target.
    request: String,
    /// The line of the file, or the option.
    origin: String,
    status: u16,
}

/// The response to a request of the author.
#[derive(Debug, Serialize)]
struct RequestReport {
    /// The method and target.
    request: String,
    /// The name in the file.
    name: Option<String>,
    /// The line of the file, or the option.
    origin: String,
    /// The response; `None` if there is none.
    response: Option<ResponseReport>,
    /// How the response differs from the expected one.
    failures: Vec<String>,
    /// Whether its author expects a response. The others are shown.
    #[serde(skip)]
    has_expectation: bool,
}

#[derive(Debug, Serialize)]
struct ResponseReport {
    status: u16,
    headers: Vec<(String, String)>,
    /// The start of the body.
    body: String,
}

/// Requests the routes of a module, and returns the result with the verdict on its OpenAPI
/// document, if it has one. Requests without an expected response are sent on the given state, and
/// the others on the sample's, for which authors expect responses.
pub(super) async fn exercise(
    module: &Module,
    requests: &AuthorRequests,
    present: &Arc<Snapshot>,
) -> (Exercise, Option<RuleVerdict>) {
    let sample = sample_state();
    let state = |request: &AuthorRequest| {
        if request.expected.is_some() { &sample } else { present }
    };
    let requests: Vec<_> = requests.iter().map(|request| (request, state(request))).collect();
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut verdict = None;
    if let Some(openapi) = module.openapi() {
        let recorded = conformance::record(module).await;
        verdict = Some(openapi::validate(openapi, &recorded));
        let recorded = recorded.iter().flat_map(|(_, recorded)| recorded);
        exchanges.extend(recorded.map(Exchange::from_recorded));
    }
    let mut reports = Vec::new();
    for (request, snapshot) in &requests {
        let report = send(module, request, snapshot).await;
        exchanges.push(report.exchange());
        reports.push(report);
    }
    let openapi = module.openapi();
    let routes = openapi.map(|openapi| routes::reports(openapi, &exchanges));
    let undeclared = openapi.into_iter().flat_map(|openapi| undeclared(openapi, &reports));
    let exercise = Exercise {
        undeclared: undeclared.collect(),
        has_document: routes.is_some(),
        volatile: volatile::find_all(module, &requests, &exchanges, &sample).await,
        routes: routes.unwrap_or_default(),
        requests: reports,
    };
    (exercise, verdict)
}

/// Returns the requests that succeed, although no declared route is theirs.
fn undeclared(
    openapi: &OpenApi,
    reports: &[RequestReport],
) -> impl Iterator<Item = UndeclaredRequest> {
    let of_report = |report: &RequestReport| {
        let status = report.response.as_ref()?.status;
        let is_undeclared = status < 400 && !report.exchange().is_declared(openapi);
        let RequestReport { request, origin, .. } = report;
        let [request, origin] = [request, origin].map(Clone::clone);
        is_undeclared.then_some(UndeclaredRequest { request, origin, status })
    };
    reports.iter().filter_map(of_report)
}

/// Returns the state of the sample.
pub(super) fn sample_state() -> Arc<Snapshot> {
    let publisher = StatePublisher::new();
    sample(&publisher);
    publisher.reader().snapshot()
}

/// Sends a request of the author, and compares the response with the expected one.
async fn send(module: &Module, request: &AuthorRequest, snapshot: &Arc<Snapshot>) -> RequestReport {
    let GuestRequest { method, target, .. } = &*request.request;
    let mut report = RequestReport {
        request: format!("{method} {target}"),
        name: request.name.clone(),
        origin: request.origin.clone(),
        response: None,
        failures: Vec::new(),
        has_expectation: request.expected.is_some(),
    };
    let (outcome, _) = conformance::run_request(module, &request.request, snapshot).await;
    match outcome {
        Err(error) => {
            report.failures.push(format!("no response: {}", truncate(&error.to_string())));
        }
        Ok(outcome) => {
            let response = outcome.response;
            let expected = request.expected.iter();
            report.failures.extend(expected.flat_map(|expected| expected.failures(&response)));
            let of_document = module
                .openapi()
                .and_then(|openapi| openapi::check(openapi, &report.request, &response).err());
            report.failures.extend(of_document.or_else(|| openapi::check_json(&response).err()));
            report.response = Some(ResponseReport::new(&response));
        }
    }
    report
}

impl Exercise {
    /// Returns the number of requests whose response is not the expected one.
    pub(super) fn failures(&self) -> usize {
        self.requests.iter().filter(|request| !request.failures.is_empty()).count()
    }
}

impl RequestReport {
    fn exchange(&self) -> Exchange {
        Exchange {
            request: self.request.clone(),
            status: self.response.as_ref().map(|response| response.status),
            is_expected: self.has_expectation && self.failures.is_empty(),
        }
    }
}

impl ResponseReport {
    fn new(response: &Response<Bytes>) -> Self {
        let headers = response.headers().iter();
        Self {
            status: response.status().as_u16(),
            headers: headers
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    (name.to_string(), truncate(&value))
                })
                .collect(),
            body: body(response, MAX_BODY),
        }
    }
}

/// Returns the start of a body as text.
fn body(response: &Response<Bytes>, max: usize) -> String {
    truncate_at(&String::from_utf8_lossy(response.body()), max)
}
