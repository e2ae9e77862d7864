//! The reasons why modules cannot be loaded or reloaded.

use std::io;

use relayer_rest_sandbox::EngineError;
use relayer_rest_sources::WatchError;

use crate::config::ConfigError;
use crate::registry::{LoadRejection, MountError, MountPath};
use crate::tokens::TokensError;

/// The reason why the modules of the settings cannot be loaded or reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The engine cannot be set up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An extension cannot be mounted.
    #[error("{error}")]
    Mount {
        /// The reason.
        error: MountError,
    },
    /// A module was rejected.
    #[error(transparent)]
    Rejected(#[from] LoadRejection),
    /// Another deployment is in progress.
    #[error("mount {0}: another deployment is in progress; try again later")]
    Busy(MountPath),
    /// Another module was activated meanwhile.
    #[error("mount {0}: another module was activated meanwhile; try again")]
    Changed(MountPath),
    /// The tokens of the commands cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The task that reads the settings failed.
    #[error("settings: cannot be read: {0}; the log has the cause")]
    Reading(tokio::task::JoinError),
    /// A file cannot be watched.
    #[error("--watch: {0}")]
    Watch(WatchError),
    /// A thread cannot be started.
    #[error("thread: cannot be started: {0}; raise the limit of processes (ulimit -u)")]
    Start(io::Error),
}
