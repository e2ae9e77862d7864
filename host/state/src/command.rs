//! Commands to a relayer.

use std::fmt::{self, Display, Formatter};
use std::pin::Pin;

use relayer_rest_common::text::for_log;

use super::ChainId;

/// A command to a relayer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// Clears the pending packets of a chain, or of all chains.
    ClearPackets {
        /// The chain; all chains if none.
        chain: Option<ChainId>,
    },
}

/// The reason why a command was not executed, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The relayer refused it, or did not receive it.
    #[error("{0}")]
    Refused(String),
    /// The relayer did not respond in time: it may still execute the command.
    #[error("the relayer did not respond in time; it may still execute the command")]
    TimedOut,
}

/// The result of a command.
pub type CommandResult = Pin<Box<dyn Future<Output = Result<(), CommandError>> + Send>>;

/// The trace that a request belongs to, as in the W3C recommendation Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The value of the header `traceparent`.
    pub traceparent: String,
    /// The value of the header `tracestate`, if there is one.
    pub tracestate: Option<String>,
}

/// A relayer that executes commands.
pub trait CommandExecutor: Send + Sync {
    /// Executes a command, as a part of a trace if there is one. The caller limits the time,
    /// and drops the future when it is over.
    fn execute(&self, command: &Command, trace: Option<&TraceContext>) -> CommandResult;
}

impl TraceContext {
    /// Returns the id of the trace, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.traceparent.split('-').nth(1).unwrap_or_default()
    }
}

impl Command {
    /// Returns whether both affect a common chain.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let (Self::ClearPackets { chain }, Self::ClearPackets { chain: other }) = (self, other);
        chain.is_none() || other.is_none() || chain == other
    }
}

/// `clear-packets of ibc-0`
impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClearPackets { chain: Some(chain) } => {
                write!(f, "clear-packets of {}", for_log(chain.as_str()))
            }
            Self::ClearPackets { chain: None } => f.write_str("clear-packets of all chains"),
        }
    }
}
