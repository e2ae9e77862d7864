//! The outcome of a run.

use std::fmt::{self, Display, Formatter};

use bytes::Bytes;
use http::Response;
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_state::Command;
use serde::{Deserialize, Serialize};

use super::call_error::CallError;
use super::octets::Octets;
use super::trap::Trapped;

/// The outcome of a run: a response, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outcome(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Kind {
    Response {
        status: u16,
        headers: Vec<(String, Octets)>,
        body: Octets,
        /// The recorded commands.
        commands: Vec<String>,
    },
    Trap {
        /// The kind of trap, as in the metrics.
        trap: String,
        cause: String,
    },
    /// The limit of processor time was exceeded.
    Timeout,
    Invalid {
        reason: String,
    },
}

impl Outcome {
    /// Returns the outcome of a run; `None` if the host failed instead of the module.
    pub(super) fn new(
        result: Result<&Response<Bytes>, &CallError>,
        commands: &[Command],
    ) -> Option<Self> {
        Some(Self(match result {
            Ok(response) => Kind::Response {
                status: response.status().as_u16(),
                headers: response
                    .headers()
                    .iter()
                    .map(|(name, value)| (name.to_string(), Octets::new(value.as_bytes())))
                    .collect(),
                body: Octets::new(response.body()),
                commands: commands.iter().map(ToString::to_string).collect(),
            },
            Err(CallError::Trap(Trapped { kind, cause })) => {
                Kind::Trap { trap: kind.name().to_owned(), cause: cause.clone() }
            }
            Err(CallError::Timeout(..)) => Kind::Timeout,
            Err(CallError::Invalid(reason)) => Kind::Invalid { reason: reason.to_string() },
            Err(_) => return None,
        }))
    }

    /// Returns whether the module failed, or responded with a status from 500 on, except 503.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self.0 {
            Kind::Response { status, .. } => status >= 500 && status != 503,
            _ => true,
        }
    }

    /// Returns whether the limit of processor time was exceeded.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self.0, Kind::Timeout)
    }

    /// Returns the body of a response, if its bytes are valid.
    #[must_use]
    pub fn body(&self) -> Option<Vec<u8>> {
        match &self.0 {
            Kind::Response { body, .. } => body.bytes().ok(),
            _ => None,
        }
    }

    /// Returns the outcome with other texts.
    pub(super) fn map_texts(&self, map: impl Fn(&str) -> String) -> Self {
        let octets = |octets: &Octets| octets.map_texts(&map);
        Self(match &self.0 {
            Kind::Response { status, headers, body, commands } => Kind::Response {
                status: *status,
                headers: headers
                    .iter()
                    .map(|(name, value)| (name.clone(), octets(value)))
                    .collect(),
                body: octets(body),
                commands: commands.iter().map(|command| map(command)).collect(),
            },
            Kind::Trap { trap, cause } => Kind::Trap { trap: trap.clone(), cause: map(cause) },
            Kind::Timeout => Kind::Timeout,
            Kind::Invalid { reason } => Kind::Invalid { reason: map(reason) },
        })
    }
}

/// `status 500`, `trap unreachable: …`
impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Response { status, body, .. } => {
                let size = body.bytes().map_or(0, |bytes| bytes.len());
                write!(f, "status {status}, {size} bytes")
            }
            Kind::Trap { trap, cause } => {
                write!(f, "trap {}: {}", escape_control(trap), escape_control(&truncate(cause)))
            }
            Kind::Timeout => f.write_str("time-out"),
            Kind::Invalid { reason } => {
                write!(f, "invalid response: {}", escape_control(&truncate(reason)))
            }
        }
    }
}
