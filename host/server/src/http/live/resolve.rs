//! The current response to a request.

use std::sync::Arc;

use arc_swap::Guard;
use bytes::Bytes;
use hyper::http::uri::PathAndQuery;
use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::{Generation, StateReader};

use crate::cache::{RecordedResponse, RequestRef};
use crate::http::error::HostError;
use crate::http::report;
use crate::registry::{ActiveModule, Found, Mount, Registry, Responded, Uncached};

/// The module's response, or the host's if the module gave none.
pub(in crate::http) type Outcome = Result<Arc<RecordedResponse>, Arc<hyper::Response<Bytes>>>;

/// The response to a request, and the module that gave it.
#[derive(Clone)]
pub(in crate::http) struct Answer {
    pub(in crate::http) mount: Arc<Mount>,
    /// The module; none if the mount has none.
    pub(in crate::http) active: Option<Arc<ActiveModule>>,
    pub(in crate::http) outcome: Outcome,
    /// Whether the module has failed for this request: it may respond to others.
    pub(in crate::http) is_failure: bool,
    /// The generation of the state when it was asked for. A failure has none of its own.
    pub(in crate::http) asked_at: Generation,
}

impl Answer {
    /// Returns whether the response is for its request only, which executes its commands.
    pub(super) fn has_commands(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|response| !response.commands().is_empty())
    }

    /// Returns whether the module is still the active one of its mount.
    pub(super) fn is_current(&self, registry: &Registry, path: &str) -> bool {
        let mounts = registry.now();
        let active = self.mount.active();
        Arc::ptr_eq(mounts.route(path), &self.mount)
            && match (&active, &self.active) {
                (Some(active), Some(own)) => Arc::ptr_eq(active, own),
                (None, None) => true,
                _ => false,
            }
    }
}

/// A request whose response is not cached.
pub(super) struct Missed {
    mount: Arc<Mount>,
    request: Arc<GuestRequest>,
    uncached: Uncached,
}

/// Returns the current answer to a request, whose target is that of the client, if no run of
/// the module is needed for it.
pub(super) fn find(
    registry: &Registry,
    state: &StateReader,
    request: &GuestRequest,
) -> Result<Answer, Missed> {
    let mount = Arc::clone(registry.now().route(request.target.path()));
    let asked_at = state.peek().generation();
    let found = {
        let Some(active) = mount.active() else {
            let response = HostError::without_module(&mount).response();
            return Ok(Answer {
                mount,
                active: None,
                outcome: Err(Arc::new(response)),
                is_failure: false,
                asked_at,
            });
        };
        let own = mount.path().strip_prefix(request.target.as_str());
        let target = PathAndQuery::try_from(&*own).unwrap_or(PathAndQuery::from_static("/"));
        let request = Arc::new(GuestRequest { target, ..request.clone() });
        match mount.find(active, RequestRef::from(&*request), &state.peek()) {
            Ok(Found { active, hit }) => Ok((Guard::into_inner(active), hit.into_shared())),
            Err(uncached) => Err((request, uncached)),
        }
    };
    match found {
        Ok((active, response)) => {
            let outcome = Ok(response);
            Ok(Answer { mount, active: Some(active), outcome, is_failure: false, asked_at })
        }
        Err((request, uncached)) => Err(Missed { mount, request, uncached }),
    }
}

impl Missed {
    pub(super) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Runs the module, or waits for its run for an equal request.
    pub(super) async fn run(self, state: &StateReader) -> Answer {
        let Self { mount, request, uncached } = self;
        let asked_at = state.peek().generation();
        #[cfg(test)]
        runs::record(&request.target);
        match mount.run(request, uncached, state).await {
            Ok(Responded { active, response }) => {
                let outcome = Ok(response);
                Answer { mount, active: Some(active), outcome, is_failure: false, asked_at }
            }
            Err(error) => {
                let response = report::failure(&mount, &error);
                let is_failure = error.is_of_request();
                let outcome = Err(Arc::new(response));
                Answer { mount, active: Some(error.active), outcome, is_failure, asked_at }
            }
        }
    }
}

/// The runs of the module for waiting clients, for unit tests.
#[cfg(test)]
pub(super) mod runs {
    use hyper::http::uri::PathAndQuery;
    use rustix::process::getpriority_process;
    use std::sync::Mutex;

    /// The targets, and the priorities of the threads.
    static RUNS: Mutex<Vec<(PathAndQuery, i32)>> = Mutex::new(Vec::new());

    pub(super) fn record(target: &PathAndQuery) {
        let priority = getpriority_process(None).unwrap();
        RUNS.lock().unwrap().push((target.clone(), priority));
    }

    /// Returns the priorities of the threads that ran the module for this target.
    pub(in super::super) fn priorities(target: &str) -> Vec<i32> {
        let runs = RUNS.lock().unwrap();
        runs.iter().filter(|(other, _)| other == target).map(|(_, priority)| *priority).collect()
    }
}
