//! The options of a shadow.

use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use relayer_rest_common::toml_text;

use super::expected::ExpectedChanges;

/// A shadow, before a candidate is activated: it runs on each distinct request of clients that
/// the active module runs on, at a lower priority, and its responses are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// Its duration.
    pub time: ShadowTime,
    /// The changes that do not lead to a rejection.
    pub expected: ExpectedChanges,
    /// The minimum number of compared requests, below which the candidate is rejected.
    pub min_requests: u64,
    /// The maximum processor time of the candidate, to that of the active module on the same
    /// requests. Without it, the times are not compared.
    pub max_slowdown: Option<NonZeroU32>,
    /// Whether the shadow ends at the first difference that is not expected, and when a few
    /// requests show that the candidate is too slow.
    pub abort: bool,
}

/// The duration of a shadow, of at most a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowTime(Duration);

/// The reason why a text is not the duration of a shadow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShadowTimeError(String);

impl Shadow {
    /// Creates a shadow of this duration, in which no change is expected and at least one
    /// request must be compared.
    #[must_use]
    pub fn new(time: ShadowTime) -> Self {
        Self {
            time,
            expected: ExpectedChanges::default(),
            min_requests: 1,
            max_slowdown: None,
            abort: false,
        }
    }
}

impl ShadowTime {
    /// The longest duration.
    pub const MAX: Self = Self(Duration::from_hours(7 * 24));

    /// Returns the duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Display for ShadowTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0.as_millis().max(1))
    }
}

impl TryFrom<Duration> for ShadowTime {
    type Error = ShadowTimeError;

    fn try_from(time: Duration) -> Result<Self, ShadowTimeError> {
        if time.is_zero() || time > Self::MAX.0 {
            let message =
                format!("{time:?} is out of range; expected more than 0 and at most 7days");
            return Err(ShadowTimeError(message));
        }
        Ok(Self(time))
    }
}

impl FromStr for ShadowTime {
    type Err = ShadowTimeError;

    fn from_str(text: &str) -> Result<Self, ShadowTimeError> {
        toml_text::duration(text).map_err(ShadowTimeError)?.try_into()
    }
}
