//! The metrics of the server, in the text format of `OpenMetrics` or of Prometheus.
//!
//! All values are read when they are requested: only requests, with their times, are counted
//! for the metrics alone.
//!
//! | file | job |
//! |---|---|
//! | `family.rs` | families of metrics, their samples, and their text |
//! | `mounts.rs` | requests, cache, instances and modules of each mount |
//! | `server.rs` | connections, sources and snapshots |
//! | `process.rs` | the process, from the system |

mod family;
mod mounts;
mod process;
mod server;

use relayer_rest_state::Snapshot;

use crate::capsules::CapsuleTally;
use crate::http::ConnectionTally;
use crate::registry::Mounts;
pub(super) use family::Format;
pub use family::{Family, FamilyKind, Sample, Samples, Value};

/// Returns the families of all metrics, in their order.
pub fn families() -> impl Iterator<Item = &'static Family> {
    [mounts::FAMILIES, server::FAMILIES, process::FAMILIES].into_iter().flatten().copied()
}

/// Returns the metrics of a server.
#[must_use]
pub fn collect(
    mounts: &Mounts,
    snapshot: &Snapshot,
    connections: Option<&ConnectionTally>,
    capsules: Option<&CapsuleTally>,
) -> Samples {
    let mut samples = Samples::default();
    for mount in mounts.iter() {
        mounts::collect(mount, &mut samples);
    }
    server::collect(snapshot, connections, capsules, &mut samples);
    process::collect(&mut samples);
    samples
}
