//! The files and sockets that the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use crate::HttpLimits;

/// What is needed for other than connections: some, and some for each mount;
/// and what a reload may add to those.
const OTHERS: u64 = 128;
const OF_A_MOUNT: u64 = 8;

/// No more connections than the system allows, once that is as many as it can
/// be: by default it allows few.
pub(super) fn bounded(limits: HttpLimits, mounts: usize) -> HttpLimits {
    let others = OTHERS + OF_A_MOUNT * mounts as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::from(limits.connections) + others;
    let allowed = maximum.unwrap_or(wanted).min(wanted).max(current.unwrap_or(wanted));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum }) {
        debug!(%error, "the limit of open files stays as it is");
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(wanted).saturating_sub(others).max(1);
    if most >= u64::from(limits.connections) {
        return limits;
    }
    warn!(
        "no more than {most} connections, in place of {} (http.connections): the system allows no more open files; raise its limit (ulimit -n)",
        limits.connections
    );
    HttpLimits { connections: u32::try_from(most).unwrap_or(u32::MAX), ..limits }
}
