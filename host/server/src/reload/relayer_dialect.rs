//! Serves the API in the dialect of the relayer, unless the settings name another one.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_conformance::Dialect;
use relayer_rest_state::{RelayerDialect, StateReader};
use tokio::time::sleep;
use tracing::{error, info};

use super::error::ReloadError;
use super::modules::Modules;

/// The time between two attempts while another deployment is in progress.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Replaces the bundled module of the API whenever the relayer speaks another dialect, until
/// the publisher of the state ends.
pub async fn follow(modules: Arc<Modules>, state: StateReader) {
    let mut changes = state.changes();
    let mut known = None;
    while changes.changed().await.is_ok() {
        let dialect = *state.peek().dialect().value();
        let (true, Some(spoken)) = (dialect != known, dialect) else { continue };
        known = dialect;
        let spoken = match spoken {
            RelayerDialect::V0_7 => Dialect::V0_7,
            RelayerDialect::V1_13 => Dialect::V1_13,
        };
        info!(dialect = %spoken, "dialect of the relayer detected");
        loop {
            match modules.set_relayer_dialect(spoken, &state).await {
                Ok(()) => break,
                Err(ReloadError::Busy(_)) => sleep(RETRY_INTERVAL).await,
                Err(error) => {
                    error!(dialect = %spoken, %error, "the API stays in the previous dialect");
                    break;
                }
            }
        }
    }
}
