//! The reasons why a server cannot start, or cannot reload.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use relayer_rest_fleet::FleetError;
use relayer_rest_sandbox::CodeCacheError;
use relayer_rest_server::ListenError;
use relayer_rest_server::capsules::CapsulesError;
use relayer_rest_server::config::{self, Origin};
use relayer_rest_server::control::ControlError;
use relayer_rest_server::control::takeover::TakeoverError;
use relayer_rest_server::reload::ReloadError;
use relayer_rest_server::tokens::TokensError;
use relayer_rest_sources::hermes_config;
use relayer_rest_sources::{StateFileError, TelemetryUrlError};

use super::access_log::AccessLogError;
use super::otlp::OtlpError;

/// The reason why a server cannot start, or cannot reload.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("relayer configuration {}: {state}; set `enabled = true` in the section [rest] to serve the API, or start with --enable", file.display())]
    Disabled { file: PathBuf, state: &'static str },
    #[error(transparent)]
    RelayerConfig(#[from] hermes_config::ConfigError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("the telemetry of the relayer's configuration: {0}; name it with --telemetry")]
    Telemetry(#[from] TelemetryUrlError),
    #[error(
        "--upstream (upstream.url) and --state (relayer.state) are two sources of the state; give one"
    )]
    TwoStates,
    #[error("--from (fleet.from) and {name} are two sources of the state; give one")]
    FleetAndSource { name: &'static str },
    #[error("publish: no fleet is given; name it with --to nats://HOST/FLEET")]
    NoFleet,
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error("{name} has no effect without --upstream (upstream.url)")]
    NoUpstream { name: &'static str },
    #[error("{name} needs the relayer's configuration file; add --relayer-config (relayer.config)")]
    NoRelayerConfig { name: &'static str },
    #[error(
        "--upstream: {address} is the address of this server itself; choose another with --listen"
    )]
    UpstreamIsHere { address: String },
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error(
        "{origin}: {problem}; expected a level, such as info or debug, or directives, such as info,hyper=debug"
    )]
    LogLevel { origin: Origin, problem: String },
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    #[error(transparent)]
    Capsules(#[from] CapsulesError),
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    #[error(transparent)]
    CodeCache(#[from] CodeCacheError),
    #[error(transparent)]
    Modules(#[from] ReloadError),
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("settings: cannot be read: {0}; the log has the cause")]
    Reading(tokio::task::JoinError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("socket of the service manager: {0}; pass sockets that listen, or none")]
    PassedSocket(io::Error),
    #[error("--takeover: {0}")]
    Takeover(#[from] TakeoverError),
    #[error(
        "--takeover: no server with a control socket listens on {address}; start without --takeover, or name the socket of the server with --control PATH"
    )]
    NothingToTakeOver { address: String },
    #[error("--takeover: {0}")]
    WhichServer(String),
    #[error("--takeover: the running server is found by its control socket; remove --no-control")]
    TakeoverWithoutControl,
    #[error(
        "--takeover: the state of the relayer is not known after {0:?}, and the running server knows it; check the sources of the state"
    )]
    StateUnknown(Duration),
    #[error(
        "--takeover: {reason}; the running server has a module there: correct this one, or remove its [[extension]]"
    )]
    ExtensionLost { reason: String },
    #[error("address {address}: {source}")]
    Listen { address: String, source: ListenError },
    #[error(
        "--max-stale: not longer than --poll, so each state would expire before the next; raise it"
    )]
    MaxStale,
    #[error(
        "server: cannot start: {0}; check the limits of open files and processes (ulimit -n, ulimit -u)"
    )]
    Start(io::Error),
}

impl ServeError {
    /// Returns the exit status of the process.
    pub(super) fn status(&self) -> u8 {
        if matches!(self, Self::Disabled { .. }) { 3 } else { 2 }
    }
}
