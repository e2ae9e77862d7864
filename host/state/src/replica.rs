//! The state that another host publishes.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::relayer::{Component, RelayerDialect, RelayerState};
use super::telemetry::MetricFamily;
use super::versioned::Known;
use super::{ChainConfig, ChainId};

/// A generation of the state of a fleet. A later one is greater: `1764108000-17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct FleetGeneration {
    /// The tenure of the writer, which grows with each change of the writer.
    pub epoch: u64,
    /// The number within the tenure, which grows with each change of the state.
    pub number: u64,
}

/// A text that is not a generation of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a generation of a fleet; expected two numbers, such as 1764108000-17")]
pub struct FleetGenerationError;

impl Display for FleetGeneration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

impl FromStr for FleetGeneration {
    type Err = FleetGenerationError;

    fn from_str(text: &str) -> Result<Self, FleetGenerationError> {
        let (epoch, number) = text.split_once('-').ok_or(FleetGenerationError)?;
        Ok(Self { epoch: natural(epoch)?, number: natural(number)? })
    }
}

/// Parses digits only, without a sign.
fn natural(text: &str) -> Result<u64, FleetGenerationError> {
    let is_natural = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_natural).ok_or(FleetGenerationError)
}

/// The whole state of a relayer at another host.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Its generation.
    pub generation: FleetGeneration,
    /// The time of the last change, on the clock of the other host.
    pub changed: SystemTime,
    /// The components, `ibc-relayer` first.
    pub components: Vec<Component>,
    /// The dialect, if it is known.
    pub dialect: Option<RelayerDialect>,
    /// The identifiers of the chains, in their order.
    pub chain_ids: Known<Vec<ChainId>>,
    /// The listed chains.
    pub chains: Vec<(ChainId, Known<ChainConfig>)>,
    /// The state.
    pub status: Known<RelayerState>,
    /// The names of the families of metrics.
    pub family_names: Known<Vec<Arc<str>>>,
    /// The families of metrics.
    pub families: Vec<MetricFamily>,
    /// The time at which the telemetry was read, on the clock of the other host.
    pub scraped: Option<SystemTime>,
}

#[cfg(test)]
mod tests {
    use super::FleetGeneration;

    #[test]
    fn generations_are_ordered_by_epoch_first() {
        let of = |text: &str| text.parse::<FleetGeneration>().unwrap();
        assert!(of("1-9") < of("2-1") && of("2-1") < of("2-10"));
        assert_eq!(of("7-3").to_string(), "7-3");
        for text in [
            "",
            "1",
            "-",
            "1-",
            "-1",
            "+1-1",
            "1-+1",
            "1-1-1",
            "a-1",
            " 1-1",
            "1-18446744073709551616",
        ] {
            assert!(text.parse::<FleetGeneration>().is_err(), "{text}");
        }
    }
}
