//! The headers of a fleet: `x-relayer-generation` of a response, and the minimum that a request
//! requires, so that a client of several hosts never gets an older state than before.

use std::cell::RefCell;
use std::time::Duration;

use hyper::Request;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use relayer_rest_state::{FleetGeneration, Snapshot, StateReader};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::HostError;

const X_RELAYER_GENERATION: HeaderName = HeaderName::from_static("x-relayer-generation");
const X_RELAYER_MIN_GENERATION: HeaderName = HeaderName::from_static("x-relayer-min-generation");

/// The time that a request waits for a generation which this host does not have yet.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The permits of requests that wait; others are refused at once.
static WAITING: Semaphore = Semaphore::const_new(1_024);

thread_local! {
    /// The last value of this thread.
    static LAST: RefCell<Option<(FleetGeneration, HeaderValue)>> = const { RefCell::new(None) };
}

/// Adds the generation of a snapshot to a response, if the host belongs to a fleet.
pub(super) fn add(headers: &mut HeaderMap, snapshot: &Snapshot) {
    let Some(generation) = snapshot.fleet_generation() else { return };
    let value = LAST.with_borrow_mut(|last| match last {
        Some((before, value)) if *before == generation => value.clone(),
        _ => {
            let value = HeaderValue::try_from(generation.to_string()).expect("they are digits");
            *last = Some((generation, value.clone()));
            value
        }
    });
    headers.insert(X_RELAYER_GENERATION, value);
}

/// Returns whether a request must wait for a generation, or is invalid.
pub(super) fn must_wait<B>(request: &Request<B>, snapshot: &Snapshot) -> bool {
    snapshot.is_in_fleet()
        && request.headers().contains_key(X_RELAYER_MIN_GENERATION)
        && !required(request).is_ok_and(|required| has(snapshot, required))
}

/// Waits for the generation that a request requires.
pub(super) async fn wait<B>(request: &Request<B>, state: &StateReader) -> Result<(), HostError> {
    if !must_wait(request, &state.peek()) {
        return Ok(());
    }
    let required = required(request)?;
    // Each publication wakes all of them.
    let Ok(_waiting) = WAITING.try_acquire() else { return Err(HostError::Behind) };
    let mut changes = state.changes();
    let arrival = async {
        while !has(&state.peek(), required) {
            if changes.changed().await.is_err() {
                break;
            }
        }
    };
    timeout(MAX_WAIT, arrival).await.map_err(|_| HostError::Behind)
}

fn has(snapshot: &Snapshot, required: FleetGeneration) -> bool {
    snapshot.fleet_generation().is_some_and(|generation| generation >= required)
}

/// Returns the greatest generation that a request requires.
fn required<B>(request: &Request<B>) -> Result<FleetGeneration, HostError> {
    let mut greatest = None;
    for value in request.headers().get_all(X_RELAYER_MIN_GENERATION) {
        let text = value.to_str().map_err(|_| HostError::BadGeneration)?;
        // A proxy may have joined several headers.
        for generation in text.split(',') {
            let generation = generation.trim().parse().map_err(|_| HostError::BadGeneration)?;
            greatest = greatest.max(Some(generation));
        }
    }
    greatest.ok_or(HostError::BadGeneration)
}

#[cfg(test)]
mod tests {
    use super::{HostError, add, must_wait, wait};
    use hyper::Request;
    use hyper::header::HeaderMap;
    use relayer_rest_state::StatePublisher;
    use std::time::Duration;

    fn request(generations: &[&str]) -> Request<()> {
        let mut request = Request::new(());
        for generation in generations {
            let value = generation.parse().unwrap();
            request.headers_mut().append("x-relayer-min-generation", value);
        }
        request
    }

    /// Returns a publisher whose fleet generation is of epoch 7, with the number.
    fn writer() -> (StatePublisher, u64) {
        let publisher = StatePublisher::new();
        publisher.set_epoch(Some(7));
        publisher.update_state(|state| state.chains.push("a".into()));
        let number = publisher.reader().snapshot().fleet_generation().unwrap().number;
        (publisher, number)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_gets_its_generation_or_an_error() {
        let (publisher, number) = writer();
        let state = publisher.reader();
        for present in ["6-99", "7-0", &format!("7-{number}")] {
            assert!(!must_wait(&request(&[present]), &state.snapshot()), "{present}");
            assert_eq!(wait(&request(&[present]), &state).await, Ok(()));
        }
        let next = format!("7-{}", number + 1);
        assert_eq!(wait(&request(&[&next]), &state).await, Err(HostError::Behind));
        // The greatest one counts.
        for several in [&["7-0", &next][..], &[&format!("{next}, 7-0")]] {
            assert_eq!(wait(&request(several), &state).await, Err(HostError::Behind));
        }
        let waiting = tokio::spawn({
            let state = state.clone();
            async move { wait(&request(&[&next]), &state).await }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        publisher.update_state(|state| state.chains.push("b".into()));
        assert_eq!(waiting.await.unwrap(), Ok(()));
        for invalid in ["", "7", "x-1", "-1"] {
            let error = wait(&request(&[invalid]), &state).await;
            assert_eq!(error, Err(HostError::BadGeneration), "{invalid}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_outside_of_fleets_have_no_generations() {
        let publisher = StatePublisher::new();
        let mut headers = HeaderMap::new();
        add(&mut headers, &publisher.reader().snapshot());
        assert!(headers.is_empty());
        assert_eq!(wait(&request(&["7-1"]), &publisher.reader()).await, Ok(()));
        // A standby has none yet.
        publisher.set_epoch(None);
        add(&mut headers, &publisher.reader().snapshot());
        assert!(headers.is_empty());
        assert_eq!(wait(&request(&["7-1"]), &publisher.reader()).await, Err(HostError::Behind));
    }

    #[test]
    fn a_response_has_the_newest_generation() {
        let (publisher, number) = writer();
        let mut headers = HeaderMap::new();
        for number in [number, number + 1] {
            add(&mut headers, &publisher.reader().snapshot());
            assert_eq!(headers["x-relayer-generation"], format!("7-{number}"));
            publisher.update_state(|state| state.chains.push(format!("c{number}").into()));
        }
    }
}
