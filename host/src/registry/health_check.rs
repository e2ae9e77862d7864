//! Health checks of the active module, apart from the requests of clients.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use tracing::{Instrument, info_span};

use super::mount::Mount;
use super::preflight;
use crate::conformance;
use crate::module::GuestRequest;
use crate::state::StateReader;
use crate::text::{escape_control, truncate};

/// The maximum number of counted client requests in a health check.
const MAX_REQUESTS: usize = 20;

impl Mount {
    /// Checks the active module: whether the API's speaks its dialect, or whether an
    /// extension's responds on any relayer. Returns the first failure as an error.
    /// Clients are not affected, and the runs are not counted.
    pub async fn examine(self: &Arc<Self>, state: &StateReader) -> Result<(), String> {
        let (module, present) = (self.module().afresh(), Some(state.snapshot()));
        let dialect = (!self.is_extension()).then_some(self.dialect);
        self.in_background(async move {
            let verdict = match dialect {
                Some(dialect) => conformance::examine(&module, dialect, present).await,
                None => conformance::examine_extension(&module, present).await,
            };
            let Some(failed) = verdict.failures().next() else { return Ok(()) };
            let failure = failed.failure.as_deref().unwrap_or_default();
            Err(format!("rule {}: {failure}", failed.rule))
        })
        .await
    }

    /// Runs the active module on `/` and on the most frequent requests of clients.
    /// Returns an error if one of the runs fails.
    pub(super) async fn health_check(self: &Arc<Self>, state: &StateReader) -> Result<(), String> {
        let (module, snapshot) = (self.module().afresh(), state.snapshot());
        let questions = self.cache().hottest(&module, MAX_REQUESTS);
        self.in_background(async move {
            let questions = questions.iter().map(|asked| Arc::clone(&asked.request));
            for question in std::iter::once(Arc::new(root())).chain(questions) {
                let answer = preflight::of(&module, &question, &snapshot).await;
                answer.map_err(|error| {
                    format!("{} {}: {error}", question.method, question.target.path())
                })?;
            }
            Ok(())
        })
        .await
    }

    /// Runs a check on the mount's background thread.
    async fn in_background(
        &self,
        look: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> Result<(), String> {
        let look = look.instrument(info_span!("look", mount = %self.path()));
        let found = self.background.run(look).await;
        let found =
            found.map_err(|error| format!("the host cannot look at the module: {error}"))?;
        found.map_err(|reason| escape_control(&truncate(&reason)))
    }
}

fn root() -> GuestRequest {
    let (method, target) = (Method::GET, PathAndQuery::from_static("/"));
    GuestRequest { method, target, headers: HeaderMap::new() }
}
