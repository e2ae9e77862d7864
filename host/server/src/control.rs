//! Controls a running server: HTTP with JSON over a Unix socket that only its owner can
//! write to, and over the admin listener, to clients with a token.
//!
//! | request | response |
//! |---|---|
//! | `GET /livez` | 200, `ok` |
//! | `GET /readyz` | 200, `ok`; or 503 with a line for each check, until the state is known and while the server shuts down |
//! | `GET /metrics` | 200, the [`metrics`] in the text format of `OpenMetrics` or of Prometheus |
//! | `GET /log-level`, and `PUT` with the new one | 200, the level of the log |
//! | `GET /config` | 200, [`EffectiveConfig`] |
//! | `GET /openapi.json` | 200, the routes of all modules |
//! | `GET /status` | 200, [`Status`] |
//! | `POST /explain`, an [`ExplainRequest`] as its body | 200, [`Explanation`](crate::registry::Explanation) |
//! | `GET /capsule?id=ID` | 200, the capsule of the request with this id; 404 if it is not recent, or if no capsules are kept |
//! | `POST /swap?mount=/&name=FILE`, the component as its body; and `sha256=DIGEST`, `dialect=NAME`, `dry-run=true`, `force=true`; for a shadow `shadow=DURATION`, `expect=TOML`, `min-requests=N`, `max-slowdown=N`, `abort=true` | 200, or 409 if the module is rejected: [`SwapReport`](crate::registry::SwapReport) |
//! | `DELETE /swap?mount=/` | 200, [`CancelledShadow`]; or 409 without a shadow in progress |
//! | `POST /reload` | 200, [`Reloaded`], with the invalid files in `failures`; or 409 if the settings cannot be used, or there are none |
//! | `POST /rollback?mount=/` | 200, [`RolledBack`]; or 409 without a previous module |
//! | `POST /takeover` with `connection: upgrade` and `upgrade: relayer-rest-takeover` | 101, and a [`takeover`] begins; 426 without these headers, 404 over TCP, or 409 while another is in progress, a module is deployed, or the server shuts down |
//!
//! The first six are for all clients of a listener, except for `PUT`; the others need a token
//! over TCP. An error has a status of 400 or above and a [`ControlFault`] as its body, except
//! for a rejected module.
//!
//! | file | job |
//! |---|---|
//! | `socket.rs` | the socket: its path, takeover, mode and removal |
//! | `listener.rs` | the listeners, and the clients that may use each |
//! | `server.rs` | accepts connections |
//! | `clients.rs` | the clients of a listener, of which an idle one leaves for another |
//! | `api.rs` | the routes, and their handlers |
//! | `metrics.rs` | the metrics of the server |
//! | `readiness.rs` | whether the server is ready for clients |
//! | `client.rs` | sends the requests |
//! | `status.rs` | the status of a server |
//! | `takeover.rs`, `takeover/` | a new process receives the sockets of a running server |

mod api;
mod client;
mod clients;
mod listener;
pub mod metrics;
mod readiness;
mod server;
mod socket;
mod status;
pub mod takeover;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Request;
use serde::{Deserialize, Serialize};

use crate::config::{Setting, Settings};
use crate::reload::Reloaded;

pub use crate::http::{ConnectionStatus, ConnectionTally};
pub use client::{ControlClient, ControlClientError};
pub use listener::AdminListener;
pub use server::ControlServer;
pub use socket::{ControlError, ControlSocket, default_folder, default_path, running};
pub use status::{FleetMembership, SourceFailureStatus, SourceStatus, Status};

/// A shadow that was ended, whose candidate is rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelledShadow {
    /// The path of the mount.
    pub mount: String,
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

/// Reloads the settings, or reports why they cannot be used.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Reloaded, String>> + Send + Sync>;

/// Tells the service manager the id of the process that serves.
pub type MainProcess = Arc<dyn Fn(u32) + Send + Sync>;

/// Returns the settings in effect.
pub type CurrentSettings = Arc<dyn Fn() -> Arc<Settings> + Send + Sync>;

/// The settings in effect, as a client gets them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectiveConfig {
    /// Each setting, with its origin.
    pub settings: Vec<Setting>,
}

/// The level of a program's log, which can be changed while it runs.
pub trait LogLevel: Send + Sync {
    /// Returns the directives, such as `info`.
    fn level(&self) -> String;

    /// Sets the directives, or returns the problem with them.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// A request for the explanation of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The method.
    pub method: String,
    /// The path with the query, as clients send it.
    pub target: String,
    /// The headers, by name and value.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

impl ExplainRequest {
    /// Returns the request, or the problem with it.
    fn to_http(&self) -> Result<Request<()>, String> {
        let Self { method, target, headers } = self;
        if !target.starts_with('/') {
            return Err(format!("target {target:?}: does not start with /"));
        }
        let mut request = Request::builder().method(&**method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(()).map_err(|error| {
            format!("request {method} {target}: {error}; expected a method, a target and headers as in HTTP")
        })
    }
}

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlFault {
    /// The problem and its remedy.
    pub error: String,
}
