//! Durations as text: `14days`, `1h 30m`, `500ms`, `0s`.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A duration in nanoseconds, as in the contract.
#[derive(Clone, Copy)]
pub(crate) struct DurationJson(pub(crate) u64);

impl Display for DurationJson {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        humantime::format_duration(Duration::from_nanos(self.0)).fmt(f)
    }
}

impl Serialize for DurationJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::DurationJson;

    #[test]
    fn durations_are_written_in_the_largest_units_that_fit() {
        let second = 1_000_000_000;
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (500_000_000, "500ms"),
            (10 * second, "10s"),
            (5400 * second, "1h 30m"),
            (336 * 3600 * second, "14days"),
            (224 * 3600 * second, "9days 8h"),
            (2_678_400 * second, "1month 13h 26m 24s"),
        ] {
            assert_eq!(serde_json::to_value(DurationJson(nanoseconds)).unwrap(), text);
        }
    }
}
