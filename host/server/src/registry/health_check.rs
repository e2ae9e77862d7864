//! Health checks of the active module, apart from the requests of clients.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_sandbox::{GuestRequest, Module};
use relayer_rest_state::StateReader;
use tokio::time::timeout;
use tracing::{Instrument, info_span};

use super::background_worker::BackgroundWorker;
use super::path::MountPath;
use super::run;
use crate::cache::ResponseCache;

/// The maximum number of counted client requests in a health check.
const MAX_REQUESTS: usize = 20;

/// Checks the modules of a mount. Clients are not affected, and the runs are not counted.
pub(super) struct HealthCheck<'a> {
    pub(super) mount: &'a MountPath,
    pub(super) cache: &'a ResponseCache,
    pub(super) background: &'a BackgroundWorker,
    /// The maximum time of a check.
    pub(super) time: Duration,
}

impl HealthCheck<'_> {
    /// Runs a module on `/` and on the most frequent requests of clients. Returns an
    /// error if one of the runs fails, or if they take too long.
    pub(super) async fn run(&self, module: Module, state: &StateReader) -> Result<(), String> {
        let module = module.afresh();
        let snapshot = state.snapshot();
        let requests = self.cache.hottest(&module, MAX_REQUESTS);
        let permits = self.cache.compression_permits().clone();
        let check = self.in_background(async move {
            let requests = requests.iter().map(|stats| Arc::clone(&stats.request));
            for request in std::iter::once(Arc::new(root())).chain(requests) {
                let response = run::in_background(&module, &request, &snapshot, &permits).await;
                response.map_err(|error| {
                    format!("{} {}: {error}", request.method, request.target.path())
                })?;
            }
            Ok(())
        });
        let result = timeout(self.time, check).await;
        result.unwrap_or_else(|_| Err(format!("no result within {:?}", self.time)))
    }

    /// Runs a check on the mount's background thread.
    async fn in_background(
        &self,
        check: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> Result<(), String> {
        let check = check.instrument(info_span!("health_check", mount = %self.mount));
        let result = self.background.run(check).await;
        let result =
            result.map_err(|error| format!("the host cannot run the health check: {error}"))?;
        result.map_err(|reason| escape_control(&truncate(&reason)))
    }
}

fn root() -> GuestRequest {
    let target = PathAndQuery::from_static("/");
    GuestRequest::new(Method::GET, target, HeaderMap::new())
}
