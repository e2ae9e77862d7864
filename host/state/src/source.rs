//! The sources of the state, and their failures.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of the state. Its failure is part of the published state; the time of its
/// last response is not.
#[derive(Debug, Clone)]
pub struct Source {
    /// The kind of source.
    pub kind: SourceKind,
    /// The URL or the file, without secrets; empty if the kind has neither.
    pub location: String,
    /// The failure, until the source recovers.
    pub failure: Option<SourceFailure>,
    counts: Arc<Counts>,
}

/// The counters of a source, which are not part of the published state: they change with
/// each poll.
#[derive(Debug, Default)]
struct Counts {
    /// The time of the last response, in milliseconds since 1970; 0 before the first.
    last_response: AtomicU64,
    responses: AtomicU64,
    failures: AtomicU64,
}

/// A kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A sample for experiments, not a relayer.
    Sample,
    /// A relayer's configuration file.
    RelayerConfig,
    /// A file with a relayer's state.
    StateFile,
    /// The REST API of a running relayer.
    Upstream,
    /// The relayer in whose process the server runs.
    Relayer,
    /// A fleet, to which another host publishes the state of its relayer.
    Fleet,
    /// The telemetry of a running relayer.
    Telemetry,
}

/// A failure of a source, whose last valid content stays published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFailure {
    /// The latest problem.
    pub message: String,
    /// The time of the first of the failures in a row.
    pub since: SystemTime,
}

impl Source {
    pub(super) fn new(kind: SourceKind, location: String) -> Self {
        Self { kind, location, failure: None, counts: Arc::default() }
    }

    /// Records a response at this time.
    pub(super) fn record_response(&self, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.counts.last_response.store(millis, Ordering::Relaxed);
        self.counts.responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure.
    pub(super) fn record_failure(&self) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of usable responses.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.counts.responses.load(Ordering::Relaxed)
    }

    /// Returns the number of failures.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.counts.failures.load(Ordering::Relaxed)
    }

    /// Returns the time of the last usable response, or of the last read of a file.
    #[must_use]
    pub fn last_response(&self) -> Option<SystemTime> {
        match self.counts.last_response.load(Ordering::Relaxed) {
            0 => None,
            time => Some(UNIX_EPOCH + Duration::from_millis(time)),
        }
    }

    /// Returns the location without the folder of a file, for clients and modules.
    #[must_use]
    pub fn public_location(&self) -> &str {
        if self.kind.is_file() {
            let name = Path::new(&self.location).file_name().and_then(OsStr::to_str);
            return name.unwrap_or_default();
        }
        &self.location
    }

    /// Returns the problem for clients and modules. The one of a file may repeat a value
    /// that they must not see.
    #[must_use]
    pub fn public_problem(&self) -> Option<&str> {
        let failure = self.failure.as_ref()?;
        Some(if self.kind.is_file() { "the file is invalid" } else { &failure.message })
    }
}

/// The time of the last response changes with each poll: it is not part of the content.
impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.location == other.location && self.failure == other.failure
    }
}

impl SourceKind {
    /// Returns the name: `upstream`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::RelayerConfig => "relayer-config",
            Self::StateFile => "state-file",
            Self::Upstream => "upstream",
            Self::Relayer => "relayer",
            Self::Fleet => "fleet",
            Self::Telemetry => "telemetry",
        }
    }

    fn is_file(self) -> bool {
        matches!(self, Self::RelayerConfig | Self::StateFile)
    }
}

impl Display for SourceKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, SourceKind};
    use crate::StatePublisher;

    fn sources(publisher: &StatePublisher) -> Vec<Source> {
        publisher.reader().snapshot().sources().value().clone()
    }

    #[test]
    fn a_failure_lasts_from_the_first_one_until_a_response() {
        let publisher = StatePublisher::new();
        let file = publisher.add_source(SourceKind::StateFile, "state.json");
        let upstream = publisher.add_source(SourceKind::Upstream, "http://h");
        assert_eq!(sources(&publisher)[1].last_response(), None);
        upstream.responded();
        assert!(sources(&publisher)[1].last_response().is_some());
        upstream.failed("timeout");
        let first = sources(&publisher)[1].failure.clone().unwrap();
        upstream.failed("refused");
        let second = sources(&publisher)[1].failure.clone().unwrap();
        let counted = &sources(&publisher)[1];
        assert_eq!((counted.responses(), counted.failures()), (1, 2));
        assert_eq!((second.message.as_str(), second.since), ("refused", first.since));
        file.responded();
        assert!(
            sources(&publisher)[0].failure.is_none() && sources(&publisher)[1].failure.is_some()
        );
        upstream.responded();
        assert_eq!(sources(&publisher)[1].failure, None);
    }

    #[test]
    fn a_response_publishes_nothing_unless_a_failure_is_over() {
        let publisher = StatePublisher::new();
        let source = publisher.add_source(SourceKind::Relayer, "");
        let generation = || publisher.reader().snapshot().sources().generation();
        let before = (publisher.reader().snapshot().generation(), generation());
        source.responded();
        assert_eq!((publisher.reader().snapshot().generation(), generation()), before);
        source.failed("gone");
        assert!(generation() > before.1);
        assert!(publisher.reader().snapshot().changed().generation < generation());
    }

    #[test]
    fn a_source_is_listed_once() {
        let publisher = StatePublisher::new();
        for _ in 0..2 {
            publisher.add_source(SourceKind::Upstream, "http://h").failed("gone");
        }
        publisher.add_source(SourceKind::Upstream, "http://other").responded();
        let failures: Vec<_> =
            sources(&publisher).into_iter().map(|source| source.failure.is_some()).collect();
        assert_eq!(failures, [true, false]);
    }
}
