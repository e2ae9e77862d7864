//! Controls a running server: HTTP with JSON over a Unix socket that only its owner can
//! write to.
//!
//! | request | response |
//! |---|---|
//! | `GET /status` | 200, [`Status`] |
//! | `POST /swap?mount=/&name=FILE`, the component as its body; and `sha256=DIGEST`, `dialect=NAME`, `dry-run=true`, `force=true` | 200, or 409 if the module is rejected: [`SwapReport`](crate::registry::SwapReport) |
//! | `POST /reload` | 200, [`Reloaded`]; or 409 if the settings cannot be used, or there are none |
//! | `POST /rollback?mount=/` | 200, [`RolledBack`]; or 409 without a previous module |
//!
//! An error has a status of 400 or above and a [`Fault`] as its body, except for a
//! rejected module.
//!
//! | file | job |
//! |---|---|
//! | `socket.rs` | the socket: its path, takeover, mode and removal |
//! | `../http/control_server.rs` | serves the requests |
//! | `../http/control_client.rs` | sends the requests |

mod socket;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::registry::MountStatus;

pub use crate::http::{ConnectionTally, ControlClient, ControlClientError, ControlServer};
pub use socket::{ControlError, ControlSocket, default_folder, default_path, running};

/// The status of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of `relayer-rest`.
    pub version: String,
    /// The process ID.
    pub pid: u32,
    /// Whether the relayer's state is known.
    pub ready: bool,
    /// The connections of clients, if they are counted for this socket.
    pub connections: Option<ConnectionStatus>,
    /// All mounts, the API first.
    pub mounts: Vec<MountStatus>,
}

/// The connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The connections that are open now.
    pub open: u64,
    /// The connections that have been served since the start.
    pub accepted: u64,
    /// The connections that were refused for lack of room.
    pub refused: u64,
    /// Connections that were closed to make room for others.
    #[serde(default)]
    pub evicted: u64,
    /// Bytes of responses that clients have not taken yet.
    #[serde(default)]
    pub unsent: u64,
}

/// A completed rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The path of the mount.
    pub mount: String,
    /// The digest of the module that was active before.
    pub from: String,
    /// The digest of the module that is active now.
    pub to: String,
}

/// A completed reload of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The paths of unchanged mounts. A module that was swapped in stays.
    pub kept: Vec<String>,
    /// The paths of the mounts whose settings or file have changed.
    pub replaced: Vec<String>,
    /// The paths of new mounts.
    pub added: Vec<String>,
    /// The paths of the mounts that were removed.
    pub removed: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// Reloads the settings, or reports why they cannot be used.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Reloaded, String>> + Send + Sync>;

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The problem and its remedy.
    pub error: String,
}
