//! The reasons why the server cannot start.

use std::io;
use std::net::SocketAddr;

use relayer_rest_host::config::ConfigError;
use relayer_rest_host::control::ControlError;
#[cfg(feature = "fleet")]
use relayer_rest_host::fleet::FleetError;
use relayer_rest_host::module::CodeCacheError;
use relayer_rest_host::reload::ReloadError;
use relayer_rest_host::tokens::TokensError;

/// The reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The address is not an address.
    #[error("cannot resolve the address of the REST API: {0}; correct `host` in [rest]")]
    Address(io::Error),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}; choose another `port` in [rest]")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tokens of the commands cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The folder for compiled modules cannot be used.
    #[error(transparent)]
    CodeCache(#[from] CodeCacheError),
    /// A module cannot be loaded.
    #[error(transparent)]
    Modules(#[from] ReloadError),
    /// The control socket cannot be created.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The settings of the fleet are invalid.
    #[cfg(feature = "fleet")]
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The state is to be published to a fleet, and this build cannot do that.
    #[cfg(not(feature = "fleet"))]
    #[error(
        "fleet.publish-to: not available in this build; enable the feature `fleet` of relayer-rest-hermes"
    )]
    NoFleets,
    /// A thread or a runtime cannot be created.
    #[error("cannot start the REST API: {0}")]
    Start(io::Error),
}
