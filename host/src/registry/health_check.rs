//! Asking a module in service what it should answer, aside from clients.

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

/// The questions of clients that it is asked, at most.
const MAX_REQUESTS: usize = 20;

impl Mount {
    /// Says what is wrong with the module in service: of the API's, whether it
    /// speaks its dialect; of an extension's, whether it answers on any relayer.
    /// Clients do not notice, and what it costs is not counted.
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

    /// Says whether the module in service fails at what clients were answered most,
    /// or at `/`.
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

    /// Does this on the thread for what nobody waits for.
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
