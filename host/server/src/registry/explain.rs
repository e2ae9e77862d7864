//! Explains a response: the values from which it was derived, and why it is or is not cached.

use std::sync::Arc;

use relayer_rest_common::text::for_log;
use relayer_rest_sandbox::{GuestRequest, Module, ReadValue};
use relayer_rest_state::{Snapshot, StateReader};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::run;
use super::service::ModuleService;
use crate::cache::{RecordedResponse, RequestRef, Uncacheable};

/// The explanation of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The path of the mount that the request is routed to.
    pub mount: String,
    /// The active module, as in `x-relayer-module`; empty if there is none.
    pub module: String,
    /// The method and the target, as the module gets them.
    pub request: String,
    /// The status of the response; none if the module has none.
    pub status: Option<u16>,
    /// Why the module has no response.
    pub error: Option<String>,
    /// Whether the response is cached.
    pub cache: CacheStatus,
    /// The generation of the state on which the module was run.
    pub generation: Option<u64>,
    /// The values that it read.
    pub reads: Vec<ReadValue>,
    /// The request headers on which the response depends; `*` stands for all of them.
    pub headers: Vec<String>,
    /// Whether the response depends on the query.
    pub query: bool,
    /// The commands to the relayer that the module gave; they were not executed.
    pub commands: Vec<String>,
}

/// Whether a response is cached, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum CacheStatus {
    /// The response is cached and valid.
    Cached {
        /// About how often it was requested.
        hits: u64,
    },
    /// The cached response is no longer valid: values that it was derived from have changed.
    Outdated {
        /// The values that were read.
        changed: Vec<ReadValue>,
    },
    /// It is not cached yet, or it was evicted; the next request caches it.
    Absent,
    /// The cache is disabled: `limits.response-cache` is 0.
    Disabled,
    /// The module has no response; errors are not cached.
    Failed,
    /// The module gave a command, so that the response is for this request only.
    Command,
    /// The module read more values one by one, or longer names, than are recorded.
    UnrecordedReads,
    /// The response depends on more headers than a cache key can have.
    TooManyHeaders,
    /// The response does not fit into the cache (`limits.response-cache`).
    TooLarge,
}

/// Explains the response of the active module to a request: the cached one, or that of a run of
/// which clients do not notice anything.
pub(super) async fn explain(
    service: &ModuleService,
    request: GuestRequest,
    state: &StateReader,
) -> Explanation {
    let Some(module) = service.slot.load().map(|active| active.module().clone()) else {
        return Explanation {
            error: Some("the mount has no module; its status has the reason".to_owned()),
            ..Explanation::new(service, &request)
        };
    };
    let snapshot = state.snapshot();
    let request = Arc::new(request);
    let request_ref = RequestRef::from(&*request);
    let cached = service.cache.peek(&module, request_ref);
    let is_valid = |response: &RecordedResponse| {
        response.reads().is_valid_for(&snapshot, request_ref.query, request_ref.headers)
    };
    let outdated = cached.as_ref().filter(|response| !is_valid(response)).map(|response| {
        let mut changed = response.reads().values(&snapshot);
        changed.retain(|value| !value.is_current);
        CacheStatus::Outdated { changed }
    });
    let explained = match cached.filter(|response| is_valid(response)) {
        Some(response) => Ok((CacheStatus::Cached { hits: response.hits() }, response)),
        None => run_apart(service, &module, &request, &snapshot).await.map(|response| {
            let uncacheable = service.cache.uncacheable(&response).map(CacheStatus::from);
            (uncacheable.or(outdated).unwrap_or(CacheStatus::Absent), response)
        }),
    };
    let explanation = Explanation {
        module: module.label().to_str().unwrap_or_default().to_owned(),
        ..Explanation::new(service, &request)
    };
    match explained {
        Err(error) => Explanation { error: Some(error), ..explanation },
        Ok((cache, response)) => Explanation {
            status: Some(response.status().as_u16()),
            cache,
            generation: Some(response.generation().number()),
            reads: response.reads().values(&snapshot),
            headers: headers(&response),
            query: response.reads().has_query(),
            commands: response.commands().iter().map(ToString::to_string).collect(),
            ..explanation
        },
    }
}

impl Explanation {
    /// Creates the explanation of a response that does not exist.
    fn new(service: &ModuleService, request: &GuestRequest) -> Self {
        Self {
            mount: service.path.to_string(),
            module: String::new(),
            request: for_log(&format!("{} {}", request.method, request.target)),
            status: None,
            error: None,
            cache: CacheStatus::Failed,
            generation: None,
            reads: Vec::new(),
            headers: Vec::new(),
            query: false,
            commands: Vec::new(),
        }
    }
}

/// Runs the module on the mount's background thread. The run is not counted, and its commands
/// are not executed.
async fn run_apart(
    service: &ModuleService,
    module: &Module,
    request: &Arc<GuestRequest>,
    snapshot: &Arc<Snapshot>,
) -> Result<Arc<RecordedResponse>, String> {
    let module = module.clone().afresh();
    let (request, snapshot) = (Arc::clone(request), Arc::clone(snapshot));
    let permits = service.cache.compression_permits().clone();
    let run = async move { run::in_background(&module, &request, &snapshot, &permits).await };
    let result = timeout(service.check_time, service.background.run(run)).await;
    let result = result.map_err(|_| format!("no result within {:?}", service.check_time))?;
    let response = result.map_err(|error| format!("the host cannot run the module: {error}"))?;
    response.map_err(|error| for_log(&error))
}

/// Returns the names of the request headers on which a response depends.
fn headers(response: &RecordedResponse) -> Vec<String> {
    let reads = response.reads();
    let all = reads.has_all_headers().then(|| "*".to_owned());
    all.into_iter().chain(reads.single_headers().map(ToString::to_string)).collect()
}

impl From<Uncacheable> for CacheStatus {
    fn from(reason: Uncacheable) -> Self {
        match reason {
            Uncacheable::Disabled => Self::Disabled,
            Uncacheable::Command => Self::Command,
            Uncacheable::UnrecordedReads => Self::UnrecordedReads,
            Uncacheable::TooManyHeaders => Self::TooManyHeaders,
            Uncacheable::TooLarge => Self::TooLarge,
        }
    }
}
