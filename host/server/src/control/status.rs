//! The status of a running server.

use std::time::{SystemTime, UNIX_EPOCH};

use relayer_rest_state::{FleetGeneration, Snapshot, Source};
use serde::{Deserialize, Serialize};

use crate::http::ConnectionStatus;
use crate::registry::MountStatus;

/// The status of a running server. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of `relayer-rest`.
    pub version: String,
    /// The process ID.
    pub pid: u32,
    /// Whether the relayer's state is known.
    pub ready: bool,
    /// The reason why the state is not known.
    pub not_ready: Option<String>,
    /// The time of the last confirmation of the state, while the relayer does not respond.
    pub stale_since: Option<u64>,
    /// The sources of the state; empty if a program that embeds the host publishes it.
    pub sources: Vec<SourceStatus>,
    /// The fleet to which the server belongs.
    #[serde(default)]
    pub fleet: Option<FleetMembership>,
    /// The connections of clients, if they are counted for this socket.
    pub connections: Option<ConnectionStatus>,
    /// All mounts, the API first.
    pub mounts: Vec<MountStatus>,
}

/// The membership of a server in a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetMembership {
    /// The generation of the state; none for a standby, and before the first one.
    pub generation: Option<FleetGeneration>,
}

/// A source of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// The kind: `upstream`, `relayer`, `relayer-config`, `state-file` or `sample`.
    pub kind: String,
    /// The URL without credentials, or the file; empty if the kind has neither.
    pub location: String,
    /// The time of the last usable response, or of the last read of a valid file.
    pub last_response: Option<u64>,
    /// The failure, until the source recovers.
    pub failure: Option<SourceFailureStatus>,
}

/// A failure of a source. Its last valid content is served meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFailureStatus {
    /// The latest problem.
    pub message: String,
    /// The time of the first of the failures in a row.
    pub since: u64,
}

impl Status {
    /// Returns the status of a server with this state.
    pub(super) fn new(
        snapshot: &Snapshot,
        connections: Option<ConnectionStatus>,
        mounts: Vec<MountStatus>,
    ) -> Self {
        let state = snapshot.status().value();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            ready: state.is_ok(),
            not_ready: state.as_ref().err().map(|reason| reason.message.clone()),
            stale_since: snapshot.unconfirmed_since().map(seconds),
            sources: snapshot.sources().value().iter().map(SourceStatus::from).collect(),
            fleet: snapshot
                .is_in_fleet()
                .then(|| FleetMembership { generation: snapshot.fleet_generation() }),
            connections,
            mounts,
        }
    }
}

impl From<&Source> for SourceStatus {
    fn from(source: &Source) -> Self {
        Self {
            kind: source.kind.to_string(),
            location: source.location.clone(),
            last_response: source.last_response().map(seconds),
            failure: source.failure.as_ref().map(|failure| SourceFailureStatus {
                message: failure.message.clone(),
                since: seconds(failure.since),
            }),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
