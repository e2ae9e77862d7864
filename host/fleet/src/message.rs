//! The messages between the writer of a fleet and its readers, in MessagePack with the names of
//! fields: a newer host may add fields, which an older one ignores.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use relayer_rest_state::FleetGeneration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::part::{MAX_PARTS, PartDigest, PartName};

/// The version of the messages. A host ignores messages of another one.
pub(crate) const VERSION: u32 = 1;

/// The tenure of a writer. It is stored, and the next writer replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) version: u32,
    pub(crate) epoch: u64,
    /// The name of the writer, for operators.
    pub(crate) writer: String,
    /// The name of the clock of the writer's process.
    pub(crate) clock: u64,
}

/// The parts of a generation. It is stored for readers that have not got all commits, before
/// its commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) version: u32,
    pub(crate) generation: FleetGeneration,
    pub(crate) times: Times,
    pub(crate) parts: Vec<(PartName, PartDigest)>,
}

/// The change from one generation to the next. It is sent after the parts that it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) version: u32,
    pub(crate) generation: FleetGeneration,
    pub(crate) times: Times,
    pub(crate) changed: Vec<(PartName, PartDigest)>,
    pub(crate) removed: Vec<PartName>,
    /// The digest of all parts of the generation.
    pub(crate) all: PartDigest,
}

/// The times of a generation, on the wall clock of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The last change of the relayer's state.
    pub(crate) changed: SystemTime,
    /// The last scrape of the telemetry.
    pub(crate) scraped: Option<SystemTime>,
    /// The last confirmation of the state when the generation was committed.
    pub(crate) confirmed: SystemTime,
}

/// A sign of life of the writer. It is sent each second, and not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alive {
    pub(crate) version: u32,
    pub(crate) epoch: u64,
    /// The newest generation, if there is one.
    pub(crate) generation: Option<FleetGeneration>,
    /// The name of the clock of the process, and its time.
    pub(crate) clock: u64,
    pub(crate) time: Duration,
    /// The time on this clock at which the relayer last confirmed the newest generation; none
    /// before the writer has committed one.
    pub(crate) confirmed: Option<Duration>,
    /// Whether the source of the state responds.
    pub(crate) is_confirming: bool,
    /// Whether the chains are from the same source.
    pub(crate) chains: bool,
    /// The time on this clock since which the telemetry is stale, if it is.
    pub(crate) telemetry_stale: Option<Duration>,
}

/// A reading of the clock of the writer, in response to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    pub(crate) version: u32,
    /// The name of the clock.
    pub(crate) clock: u64,
    pub(crate) time: Duration,
}

/// A message that is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("it is not a message of a fleet: {0}")]
    Format(#[from] rmp_serde::decode::Error),
    #[error("it has version {0} instead of {VERSION}; update this host, or the writer")]
    Version(u32),
    #[error("{0}")]
    Bounds(String),
}

/// A message with its version and bounds.
pub(crate) trait Message: Serialize + DeserializeOwned {
    /// Returns the problem of a message with a value that is out of its bounds.
    fn problem(&self) -> Option<String> {
        None
    }

    fn encode(&self) -> Bytes {
        rmp_serde::to_vec_named(self).expect("messages are data").into()
    }

    fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }

        // Fields of another version may have other types.
        let Versioned { version } = rmp_serde::from_slice(bytes)?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let message: Self = rmp_serde::from_slice(bytes)?;
        message.problem().map_or(Ok(message), |problem| Err(MessageError::Bounds(problem)))
    }
}

impl Message for Lease {}

impl Message for Index {
    fn problem(&self) -> Option<String> {
        too_many(self.parts.len())
    }
}

impl Message for Commit {
    fn problem(&self) -> Option<String> {
        too_many(self.changed.len() + self.removed.len())
    }
}

impl Message for Alive {}

impl Message for ClockReading {}

/// Returns the problem of a message with this number of parts, if there are too many.
fn too_many(parts: usize) -> Option<String> {
    (parts > MAX_PARTS).then(|| format!("it has {parts} parts, more than {MAX_PARTS}"))
}

#[cfg(test)]
mod tests {
    use super::{Lease, Message, MessageError, VERSION};

    #[test]
    fn messages_of_other_versions_are_named() {
        let lease = Lease { version: VERSION, epoch: 7, writer: "a".to_owned(), clock: 1 };
        assert_eq!(Lease::decode(&lease.encode()).unwrap(), lease);
        let newer = Lease { version: VERSION + 1, ..lease };
        let error = Lease::decode(&newer.encode()).unwrap_err();
        assert!(matches!(error, MessageError::Version(version) if version == VERSION + 1));
        assert!(error.to_string().contains("update"), "{error}");
    }

    #[test]
    fn fields_that_are_added_later_are_ignored() {
        #[derive(serde::Serialize)]
        struct Newer {
            version: u32,
            added: Vec<u8>,
            epoch: u64,
            writer: String,
            clock: u64,
        }

        let newer =
            Newer { version: VERSION, added: vec![1], epoch: 7, writer: "a".to_owned(), clock: 1 };
        let bytes = rmp_serde::to_vec_named(&newer).unwrap();
        assert_eq!(Lease::decode(&bytes).unwrap().epoch, 7);
    }

    #[test]
    fn other_bytes_are_rejected() {
        let lease = Lease { version: VERSION, epoch: 7, writer: "a".to_owned(), clock: 1 }.encode();
        for bytes in [&b""[..], b"{}", b"\xc1", &lease[..lease.len() - 1]] {
            assert!(matches!(Lease::decode(bytes), Err(MessageError::Format(_))), "{bytes:?}");
        }
    }
}
