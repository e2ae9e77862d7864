//! The header `x-relayer-source`: the sources of the state, as a list of structured fields
//! (RFC 9651).
//!
//! ```text
//! upstream;location="http://127.0.0.1:3000/"
//! relayer-config;location="config.toml", state-file;location="state.json";failing-since=@1764000000
//! ```

use std::cell::RefCell;
use std::fmt::Write;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use hyper::header::HeaderValue;
use relayer_rest_state::{Snapshot, Source, SourceKind, Versioned};

thread_local! {
    /// The last value of this thread, so that cached responses share no memory with those of
    /// other threads.
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// The value for some sources.
struct Last {
    sources: Versioned<Vec<Source>>,
    value: HeaderValue,
}

/// Returns the header's value.
pub(super) fn value(snapshot: &Snapshot) -> HeaderValue {
    let sources = snapshot.sources();
    LAST.with_borrow_mut(|last| match last {
        Some(last) if last.sources.is_same(sources) => last.value.clone(),
        _ => {
            let value = encoded(sources.value());
            *last = Some(Last { sources: sources.clone(), value: value.clone() });
            value
        }
    })
}

fn encoded(sources: &[Source]) -> HeaderValue {
    // The state does not come from the telemetry.
    let items: Vec<_> =
        sources.iter().filter(|source| source.kind != SourceKind::Telemetry).map(item).collect();
    if items.is_empty() {
        // A program that embeds the host publishes the state by itself.
        return HeaderValue::from_static("program");
    }
    let text = items.join(", ");
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("its characters are printable")
}

fn item(source: &Source) -> String {
    let mut item = source.kind.to_string();
    let location = source.public_location();
    if !location.is_empty() {
        // A string of a structured field is printable ASCII.
        let location = location.replace(|c: char| !(' '..='~').contains(&c), "?");
        let location = location.replace('\\', "\\\\").replace('"', "\\\"");
        write!(item, ";location=\"{location}\"").expect("writing to a text succeeds");
    }
    if let Some(failure) = &source.failure {
        let since = failure.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        write!(item, ";failing-since=@{since}").expect("writing to a text succeeds");
    }
    item
}

#[cfg(test)]
mod tests {
    use super::value;
    use relayer_rest_state::{SourceKind, StatePublisher};
    use std::thread;

    #[test]
    fn sources_are_listed_with_their_failures() {
        let publisher = StatePublisher::new();
        let text = || value(&publisher.reader().snapshot()).to_str().unwrap().to_owned();
        assert_eq!(text(), "program");
        let file = publisher.add_source(SourceKind::StateFile, "/etc/relayer/a\"\\\u{e9}.json");
        publisher.add_source(SourceKind::Upstream, "http://h:3000/").responded();
        let expected = r#"state-file;location="a\"\\?.json", upstream;location="http://h:3000/""#;
        assert_eq!(text(), expected);
        publisher.add_source(SourceKind::Telemetry, "http://h:3001/metrics").failed("refused");
        assert_eq!(text(), expected);
        file.failed("secret");
        let failing = text();
        let (before, after) = failing.split_once(";failing-since=@").unwrap();
        assert_eq!(before, r#"state-file;location="a\"\\?.json""#);
        let (since, rest) = after.split_once(", ").unwrap();
        assert!(since.parse::<u64>().unwrap() > 1_700_000_000);
        assert_eq!(rest, r#"upstream;location="http://h:3000/""#);
    }

    #[test]
    fn each_thread_has_memory_of_its_own() {
        let publisher = StatePublisher::new();
        publisher.add_source(SourceKind::Sample, "").responded();
        let snapshot = publisher.reader().snapshot();
        let mine = value(&snapshot);
        assert_eq!(value(&snapshot).as_bytes().as_ptr(), mine.as_bytes().as_ptr());
        let others = thread::scope(|scope| scope.spawn(|| value(&snapshot)).join().unwrap());
        assert_eq!(others, mine);
        assert_ne!(others.as_bytes().as_ptr(), mine.as_bytes().as_ptr());
    }

    /// Servers of one process share threads in tests.
    #[test]
    fn each_publisher_has_its_own_value() {
        let [one, other] = [SourceKind::Sample, SourceKind::Relayer].map(|kind| {
            let publisher = StatePublisher::new();
            publisher.add_source(kind, "").responded();
            publisher
        });
        for _ in 0..2 {
            for (publisher, expected) in [(&one, "sample"), (&other, "relayer")] {
                assert_eq!(value(&publisher.reader().snapshot()), expected);
            }
        }
    }
}
