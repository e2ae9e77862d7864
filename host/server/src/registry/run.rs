//! Runs of a module that no client waits for.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_conformance as conformance;
use relayer_rest_sandbox::{CallError, GuestRequest, Module};
use relayer_rest_state::Snapshot;

use crate::cache::{RecordedResponse, RequestRef};
use crate::response::CompressionPermits;

/// The maximum number of counted client requests that a candidate is run on.
pub(super) const MAX_REQUESTS: usize = 100;

/// The maximum size of a candidate's responses that are kept for the cache, in bytes;
/// once it is exceeded, the candidate is not run on more requests.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// A run in the background.
pub(super) struct MeasuredRun {
    pub(super) response: Result<Arc<RecordedResponse>, CallError>,
    pub(super) time: Duration,
    /// The peak size of the instance's memories and tables in bytes; 0 without a response.
    pub(super) memory: usize,
}

/// Runs a module on a snapshot, in the background.
pub(super) async fn in_background(
    module: &Module,
    request: &Arc<GuestRequest>,
    snapshot: &Arc<Snapshot>,
    permits: &CompressionPermits,
) -> Result<Arc<RecordedResponse>, String> {
    let run = measured(module, request, snapshot, permits).await;
    run.response.map_err(|error| error.to_string())
}

/// Runs a module on a snapshot, in the background, and measures the run.
pub(super) async fn measured(
    module: &Module,
    request: &Arc<GuestRequest>,
    snapshot: &Arc<Snapshot>,
    permits: &CompressionPermits,
) -> MeasuredRun {
    let (response, time) = conformance::run_request(module, request, snapshot).await;
    let memory = response.as_ref().map_or(0, |response| response.memory);
    let response = response.map(|response| {
        let request_ref = RequestRef::from(&**request);
        let generation = snapshot.generation();
        Arc::new(RecordedResponse::new(module, request_ref, response, generation, permits))
    });
    MeasuredRun { response, time, memory }
}
