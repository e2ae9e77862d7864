//! Polls the sources of the state on a thread of their own.

use std::io;

use relayer_rest_common::{priority, threads};
use relayer_rest_sources::{TelemetrySource, Upstream};
use relayer_rest_state::{NotReady, StatePublisher};
use tokio::task::JoinHandle;
use tracing::error;

/// Polls the relayer and its telemetry for as long as the server runs. The responses are
/// read on a thread of a lower priority: clients come first, regardless of the responses.
pub(super) fn poll(
    upstream: Option<Upstream>,
    telemetry: Option<TelemetrySource>,
    publisher: &StatePublisher,
) -> io::Result<()> {
    if upstream.is_none() && telemetry.is_none() {
        return Ok(());
    }
    let sources = threads::start_runtime("sources", |runtime| {
        priority::lower_thread();
        runtime.block_on(std::future::pending::<()>());
    })?;
    if let Some(upstream) = upstream {
        let polling = sources.spawn(upstream.run(publisher.clone()));
        let publisher = publisher.clone();
        sources.spawn(if_ended(polling, move |reason| publisher.set_not_ready(reason)));
    }
    if let Some(telemetry) = telemetry {
        let polling = sources.spawn(telemetry.run(publisher.clone()));
        let publisher = publisher.clone();
        sources.spawn(if_ended(polling, move |reason| publisher.set_telemetry_not_ready(reason)));
    }
    Ok(())
}

/// Marks the data of a source as not known when its polling has ended by a panic.
pub(super) async fn if_ended(polling: JoinHandle<()>, set_not_ready: impl FnOnce(NotReady)) {
    if let Err(error) = polling.await {
        error!(%error, "polling the relayer ended; restart to resume it");
        set_not_ready(NotReady {
            message: "the relayer is no longer polled; the log has the cause".to_owned(),
            ..NotReady::default()
        });
    }
}
