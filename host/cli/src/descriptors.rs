//! The limit on files and sockets that the process may have open.

use relayer_rest_server::HttpLimits;
use relayer_rest_server::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Descriptors for other uses than connections: a number for the process and one address, and
/// one for each mount, with a reserve for reloads.
const OTHERS: u64 = 160;
const PER_MOUNT: u64 = 8;

/// Descriptors of an address: up to 16 sockets, and a duplicate of each for its thread.
const PER_LISTENER: u64 = 32;

/// Raises the limit of open files as far as is necessary and allowed, because it is low
/// by default. Returns limits with no more connections than it permits.
pub(super) fn bounded(config: &Config, mounts: usize) -> HttpLimits {
    let limits = config.http.clone();
    let listeners = config.listen.0.len().saturating_sub(1) as u64;
    let others = OTHERS + PER_MOUNT * mounts as u64 + PER_LISTENER * listeners;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::from(limits.connections) + others;
    let allowed = maximum.unwrap_or(wanted).min(wanted).max(current.unwrap_or(wanted));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum }) {
        debug!(%error, "cannot raise the limit of open files");
    }
    let max = getrlimit(Resource::Nofile).current.unwrap_or(wanted).saturating_sub(others).max(1);
    if max >= u64::from(limits.connections) {
        return limits;
    }
    warn!(
        connections = max,
        configured = limits.connections,
        hint = "raise the limit of open files (ulimit -n)",
        "limit of connections lowered"
    );
    HttpLimits { connections: u32::try_from(max).unwrap_or(u32::MAX), ..limits }
}
