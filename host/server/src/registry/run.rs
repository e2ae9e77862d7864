//! Runs of a module that no client waits for.

use std::sync::Arc;

use relayer_rest_conformance as conformance;
use relayer_rest_sandbox::{GuestRequest, Module};
use relayer_rest_state::Snapshot;

use crate::cache::{RecordedResponse, RequestRef};
use crate::response::CompressionPermits;

/// Runs a module on a snapshot, in the background.
pub(super) async fn in_background(
    module: &Module,
    request: &Arc<GuestRequest>,
    snapshot: &Arc<Snapshot>,
    permits: &CompressionPermits,
) -> Result<Arc<RecordedResponse>, String> {
    let (response, _) = conformance::run_request(module, request, snapshot).await;
    let response = response.map_err(|error| error.to_string())?;
    let request_ref = RequestRef::from(&**request);
    let generation = snapshot.generation();
    Ok(Arc::new(RecordedResponse::new(module, request_ref, response, generation, permits)))
}
