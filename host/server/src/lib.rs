//! Serves a relayer's API over HTTP: connections, cache, mounts and control.
//!
//! | folder | job |
//! |---|---|
//! | `http/` | connections, requests and responses |
//! | `cache/` | cached responses, and runs that concurrent requests share |
//! | `response/` | a module's response: its headers and its encodings |
//! | `registry/` | mounts: which module serves which requests, swaps and roll-backs |
//! | `reload/` | deploys the modules that the settings name |
//! | `config/` | the settings |
//! | `control/` | the control socket |
//! | `capsules/` | files with failed requests |
//! | `commands/` | commands to the relayer that modules record |
//! | `request_metrics.rs` | requests by module, method and status, and their times |
//! | `unix_socket.rs` | Unix sockets and their files |
//! | `tokens.rs` | the file of tokens, and the client that has one |

pub mod cache;
pub mod capsules;
pub mod commands;
pub mod config;
#[cfg(feature = "control")]
pub mod control;
mod http;
mod openapi;
pub mod registry;
pub mod reload;
mod request_metrics;
pub mod response;
pub mod tokens;
mod unix_socket;

pub use http::{
    AllowedHost, AllowedHostError, AllowedOrigin, BasePath, ConnectionStatus, ConnectionTally,
    CorsConfig, Exchange, ExchangeResponse, Handling, HttpLimits, ListenError, Listener,
    LiveLimits, LiveStatus, LiveTally, RequestObservation, RequestObserver, Server, ServerSettings,
    TlsError,
};
pub use unix_socket::UnixSocketError;
