//! Loads the first modules of mounts, before the server listens or in the background.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use relayer_rest_common::text::escape_control;
use relayer_rest_state::StateReader;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info};

use super::mount_spec::MountSpec;
use crate::registry::{Candidate, LoadRejection, Mount, Rejection};

/// The time after which the log names a module that is still being compiled, and the interval
/// after that.
const LOG_DELAY: Duration = Duration::from_secs(1);
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The time between two attempts to load a module while another deployment is in progress.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A module that is loaded in the background, unless its mount is removed before.
pub(super) struct Slow {
    pub(super) spec: MountSpec,
    pub(super) mount: Weak<Mount>,
    pub(super) candidate: Candidate,
}

/// Loads the module of a mount on this thread, and logs the result.
pub(super) async fn load(
    spec: &MountSpec,
    mount: &Mount,
    candidate: Candidate,
    state: &StateReader,
) -> Result<(), LoadRejection> {
    let result = logged_if_slow(spec, mount.load(candidate, state)).await;
    log_result(spec, mount, &result);
    result
}

/// Loads modules one after the other, which limits memory. Nothing waits for them.
pub(super) async fn load_all(all: Vec<Slow>, state: StateReader) {
    for Slow { spec, mount, candidate } in all {
        let Some(mount) = mount.upgrade() else { continue };
        let loading = async {
            loop {
                match mount.load_in_background(candidate.clone(), &state).await {
                    // Another deployment goes first. If it succeeds, there is nothing to do.
                    Err(LoadRejection { reason: Rejection::Busy, .. }) => {
                        sleep(RETRY_INTERVAL).await;
                    }
                    result => break result,
                }
            }
        };
        info!(mount = %spec.path, name = spec.name, file = spec.name_of_file(), "loading module");
        let result = logged_if_slow(&spec, loading).await;
        log_result(&spec, &mount, &result);
    }
}

/// Logs the result of loading the first module of a mount. The caller reports that of a required
/// one.
fn log_result(spec: &MountSpec, mount: &Mount, result: &Result<(), LoadRejection>) {
    let MountSpec { path, name, is_required, .. } = spec;
    match result {
        Ok(()) => {
            let digest = mount.module().map(|module| module.digest().to_string());
            let file = spec.name_of_file();
            info!(mount = %path, name, file, digest, "module loaded");
        }
        Err(_) if *is_required => {}
        Err(rejection) => error!(
            mount = %path,
            name,
            reason = %escape_control(&rejection.message),
            hint = "correct it, and reload the settings or swap in another module",
            "extension disabled"
        ),
    }
}

/// Loads the module of a mount. The log names one that takes long.
async fn logged_if_slow<T>(spec: &MountSpec, loading: impl Future<Output = T>) -> T {
    let mut loading = pin!(loading);
    let start = Instant::now();
    let mut wait = LOG_DELAY;
    loop {
        if let Ok(loaded) = timeout(wait, &mut loading).await {
            return loaded;
        }
        wait = LOG_INTERVAL;
        let file = spec.name_of_file();
        info!(mount = %spec.path, file, elapsed = ?start.elapsed(), "still compiling a module");
    }
}
