//! The stages of a roll-out: which hosts run the new module in each of them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The maximum number of stages.
const MAX_STAGES: usize = 16;

/// The hosts that run the new module in a stage, with those of the stages before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// This number of hosts.
    Hosts(u32),
    /// This percentage of all hosts, at least one.
    Percent(u8),
    /// All hosts.
    All,
}

/// The stages of a roll-out, of which the last one has all hosts, as in `1,10%,all`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stages(Vec<Stage>);

/// A text that does not name stages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; expected growing numbers and percentages of hosts, with `all` at the end, such as 1,10%,all"
)]
pub struct StagesError(String);

impl Stage {
    /// Returns the number of hosts of this stage in a fleet of `total` hosts.
    #[must_use]
    pub fn hosts(self, total: usize) -> usize {
        match self {
            Self::Hosts(hosts) => total.min(hosts as usize),
            Self::Percent(percent) => (total * usize::from(percent)).div_ceil(100),
            Self::All => total,
        }
    }
}

impl Stages {
    /// Returns the stages.
    #[must_use]
    pub fn as_slice(&self) -> &[Stage] {
        &self.0
    }
}

impl Default for Stages {
    fn default() -> Self {
        Self(vec![Stage::Hosts(1), Stage::Percent(10), Stage::All])
    }
}

impl FromStr for Stage {
    type Err = StagesError;

    fn from_str(text: &str) -> Result<Self, StagesError> {
        let error = || StagesError(format!("{text:?} is not a stage"));
        if text == "all" {
            return Ok(Self::All);
        }
        let stage = match text.strip_suffix('%') {
            Some(percent) => Self::Percent(percent.parse().map_err(|_| error())?),
            None => Self::Hosts(text.parse().map_err(|_| error())?),
        };
        match stage {
            Self::Hosts(1..) | Self::Percent(1..100) => Ok(stage),
            _ => Err(error()),
        }
    }
}

impl FromStr for Stages {
    type Err = StagesError;

    fn from_str(text: &str) -> Result<Self, StagesError> {
        let stages: Vec<Stage> =
            text.split(',').map(|stage| stage.trim().parse()).collect::<Result<_, _>>()?;
        if stages.len() > MAX_STAGES {
            return Err(StagesError(format!("there are more than {MAX_STAGES} stages")));
        }
        for (stage, next) in stages.iter().zip(&stages[1..]) {
            let grows = match (stage, next) {
                (Stage::Hosts(hosts), Stage::Hosts(next)) => hosts < next,
                (Stage::Percent(percent), Stage::Percent(next)) => percent < next,
                (Stage::All, _) => false,
                // It depends on the number of hosts.
                _ => true,
            };
            if !grows {
                return Err(StagesError(format!(
                    "the stage {next} has no more hosts than {stage}"
                )));
            }
        }
        match stages.last() {
            Some(Stage::All) => Ok(Self(stages)),
            _ => Err(StagesError("the last stage does not have all hosts".to_owned())),
        }
    }
}

impl Display for Stage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(hosts) => write!(f, "{hosts}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::All => f.write_str("all"),
        }
    }
}

impl Display for Stages {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&stages.join(","))
    }
}

impl TryFrom<String> for Stages {
    type Error = StagesError;

    fn try_from(text: String) -> Result<Self, StagesError> {
        text.parse()
    }
}

impl From<Stages> for String {
    fn from(stages: Stages) -> Self {
        stages.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Stage, Stages};

    #[test]
    fn a_stage_has_its_part_of_the_hosts() {
        let stages: Stages = "1, 10%,7,all".parse().unwrap();
        assert_eq!(stages.to_string(), "1,10%,7,all");
        for (total, expected) in
            [(0, [0, 0, 0, 0]), (1, [1, 1, 1, 1]), (50, [1, 5, 7, 50]), (1001, [1, 101, 7, 1001])]
        {
            let hosts: Vec<_> = stages.as_slice().iter().map(|stage| stage.hosts(total)).collect();
            assert_eq!(hosts, expected);
        }
        assert_eq!(Stage::Percent(1).hosts(1), 1);
    }

    #[test]
    fn other_texts_are_rejected_with_the_problem() {
        for (text, problem) in [
            ("", "\"\" is not a stage"),
            ("1", "the last stage does not have all hosts"),
            ("0,all", "\"0\" is not a stage"),
            ("100%,all", "\"100%\" is not a stage"),
            ("-1,all", "\"-1\" is not a stage"),
            ("1,,all", "\"\" is not a stage"),
            ("2,2,all", "the stage 2 has no more hosts than 2"),
            ("20%,10%,all", "the stage 10% has no more hosts than 20%"),
            ("all,all", "the stage all has no more hosts than all"),
            ("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,all", "more than 16 stages"),
        ] {
            let error = text.parse::<Stages>().unwrap_err().to_string();
            assert!(error.contains(problem) && error.ends_with("such as 1,10%,all"), "{error}");
        }
    }
}
