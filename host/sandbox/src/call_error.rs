//! The reasons that a run has no response to send.

use std::time::Duration;

use super::response::InvalidResponse;
use super::trap::Trapped;

/// The reason that a run has no response to send. Details are for the log: clients do not
/// get them.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The instance could not be created.
    #[error("the module could not be instantiated: {0:#}")]
    Instantiate(wasmtime::Error),
    /// The module trapped: it has a bug, or was refused memory.
    #[error("the module trapped: {0}")]
    Trap(Trapped),
    /// The module exceeded its limit of processor time. The text is the location at which it was
    /// interrupted, if that is known.
    #[error("the module took longer than {0:?}{location}", location = interrupted(.1.as_deref()))]
    Timeout(Duration, Option<String>),
    /// The request waited too long for a processor and was cancelled after this time: the
    /// machine is busy with others.
    #[error("no processor available for {0:?}: they are busy with other requests")]
    Starved(Duration),
    /// The queue was full, or the request waited in it for too long.
    #[error("overloaded: too many requests are being handled")]
    Overloaded,
    /// The host failed while the module ran: a bug in the host.
    #[error("the host failed: {0}; this is a bug, please report it")]
    Host(String),
    /// The response violates HTTP, a limit or the module's grants.
    #[error("the module's response is invalid: {0}")]
    Invalid(InvalidResponse),
}

impl CallError {
    /// Returns whether this is a failure of the module.
    #[must_use]
    pub fn is_module_failure(&self) -> bool {
        match self {
            Self::Trap(_) | Self::Timeout(..) | Self::Invalid(_) => true,
            Self::Instantiate(_) | Self::Overloaded | Self::Starved(_) | Self::Host(_) => false,
        }
    }

    /// Returns whether there are too many requests: neither the module nor the host has
    /// failed.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Overloaded | Self::Starved(_))
    }
}

fn interrupted(location: Option<&str>) -> String {
    location.map(|location| format!("; interrupted {location}")).unwrap_or_default()
}
