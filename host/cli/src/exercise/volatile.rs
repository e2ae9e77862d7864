//! Finds responses that change with each publication of the state, also of values that they do not
//! show: clients that wait for such a response are woken each time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use relayer_rest_conformance as conformance;
use relayer_rest_sandbox::{GuestRequest, Module, StateValue};
use relayer_rest_state::Snapshot;
use serde::Serialize;

use super::requests::AuthorRequest;
use super::routes::Exchange;

/// The times after which nothing else than the times of the publication has changed.
const LATER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// A response that changes with each publication.
#[derive(Debug, Serialize)]
pub(super) struct Volatile {
    /// The method and target.
    request: String,
    /// The functions whose results it shows.
    reads: Vec<&'static str>,
}

impl Volatile {
    /// Sends a request on a snapshot and on later ones. Returns `None` if two of the responses are
    /// equal.
    async fn find(
        module: &Module,
        request: &Arc<GuestRequest>,
        snapshot: &Arc<Snapshot>,
    ) -> Option<Self> {
        let run = async |snapshot: &Arc<Snapshot>| {
            let (outcome, _) = conformance::run_request(module, request, snapshot).await;
            outcome.ok().filter(|outcome| outcome.response.status().is_success())
        };
        let first = run(snapshot).await?;
        let values = first.reads.state_values();
        let reads: Vec<_> = values.iter().filter_map(time).collect();
        if reads.is_empty() {
            return None;
        }
        let mut bodies = vec![first.response.into_body()];
        for time in LATER {
            let body = run(&Arc::new(snapshot.after(time))).await?.response.into_body();
            if bodies.contains(&body) {
                return None;
            }
            bodies.push(body);
        }
        let GuestRequest { method, target, .. } = &**request;
        Some(Self { request: format!("{method} {target}"), reads })
    }

    /// Returns whether both are of the same target.
    fn is_of(&self, other: &Self) -> bool {
        self.request == other.request
    }

    /// Returns the warning, as a line.
    pub(super) fn line(&self) -> String {
        let Self { request, reads } = self;
        let reads = reads.join(" and ");
        format!(
            "warning: {request} changes with each publication, because it shows {reads}; clients that wait for it are woken each time: leave the time out, or round it"
        )
    }
}

/// Returns the responses that change with each publication of the state: of those to the requests
/// of the author, with their states, and of the other ones to GET that were a success, on the sample's.
pub(super) async fn find_all(
    module: &Module,
    requests: &[(&AuthorRequest, &Arc<Snapshot>)],
    exchanges: &[Exchange],
    sample: &Arc<Snapshot>,
) -> Vec<Volatile> {
    let own = requests.iter().filter(|(request, _)| request.request.method == Method::GET);
    let is_own =
        |target: &str| own.clone().any(|(request, _)| request.request.target.as_str() == target);
    let targets = exchanges.iter().filter_map(Exchange::successful_target);
    let targets: BTreeSet<&str> = targets.filter(|target| !is_own(target)).collect();
    let declared = targets.into_iter().filter_map(|target| {
        let target = PathAndQuery::try_from(target).ok()?;
        Some((Arc::new(GuestRequest::new(Method::GET, target, HeaderMap::new())), sample))
    });
    let mut found: Vec<Volatile> = Vec::new();
    let own = own.clone().map(|(request, state)| (Arc::clone(&request.request), *state));
    for (request, snapshot) in own.chain(declared) {
        let volatile = Volatile::find(module, &request, snapshot).await;
        let is_new = |volatile: &Volatile| found.iter().all(|known| !known.is_of(volatile));
        found.extend(volatile.filter(is_new));
    }
    found
}

/// Returns the function whose result is the time of a publication.
fn time(value: &StateValue) -> Option<&'static str> {
    match value {
        StateValue::Changed => Some("state.changed"),
        StateValue::Scraped => Some("telemetry.scraped"),
        _ => None,
    }
}
