//! Live responses: clients that wait for the next version of a response.
//!
//! The host knows the values that each response was derived from. So any GET of any module
//! can wait: for a change of its entity tag (long polling, RFC 7240 `prefer: wait`), or for
//! all changes (`accept: text/event-stream`). Waiters with the same module, target and
//! headers that the module read share an entry. A publication runs the module only for
//! entries whose reads changed, once for each, and wakes the waiters only if the response
//! differs.
//!
//! | file | job |
//! |---|---|
//! | `interest.rs` | whether a request waits for a response, or for all of its versions |
//! | `limits.rs` | the limits of waiters, entries and runs |
//! | `key.rs` | the key of an entry: the parts of a request that its response depends on |
//! | `content.rs` | the content of a version: a response, or why there is none |
//! | `broadcast.rs` | the newest version of an entry, and its clients by their threads |
//! | `client_threads.rs` | wakes clients, each on its thread, in turn with other requests |
//! | `version.rs` | a version of a response, which all waiters of an entry share |
//! | `entries.rs` | the entries, by key and by the values that their responses read |
//! | `due.rs` | the entries to evaluate, with a limit for each mount |
//! | `recent_runs.rs` | the runs of the last moments, whose answers equal requests share |
//! | `own_run.rs` | how a request that waits gets a response that is not cached |
//! | `evaluator.rs` | runs the modules of entries whose values changed, on a thread of its own |
//! | `changes.rs` | notices publications, and activations of modules |
//! | `run_budget.rs` | the limit of runs a second |
//! | `resolve.rs` | the current response to a request |
//! | `client.rs` | a client, with its request |
//! | `waiter.rs` | a client that waits for the next version |
//! | `long_poll.rs` | a request that gets its response when that differs |
//! | `event_stream.rs` | a response whose body is a stream of versions |
//! | `event.rs` | a version as an event |
//! | `gzip.rs` | a compressed stream, whose events are compressed once for all clients |
//! | `patch.rs` | the difference between two versions as a patch |
//! | `work.rs` | threads for patches and compressed events |
//! | `tally.rs` | counters |
//! | `fixture.rs` | clients that wait, for unit tests |

mod broadcast;
mod changes;
mod client;
mod client_threads;
mod content;
mod due;
mod entries;
mod evaluator;
mod event;
pub(super) mod event_stream;
#[cfg(test)]
mod fixture;
mod gzip;
mod interest;
mod key;
mod limits;
pub(super) mod long_poll;
mod own_run;
mod patch;
mod recent_runs;
mod resolve;
mod run_budget;
mod tally;
mod version;
mod waiter;
mod work;

use std::time::Duration;

use relayer_rest_common::{priority, threads};
use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::{Generation, StateReader};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::Instant;
use tracing::warn;

use crate::registry::Registry;
use changes::Changes;
pub(super) use client::Client;
use entries::Entries;
pub(super) use event_stream::{EventStream, StreamConnection, StreamedEvents};
pub(super) use interest::Interest;
pub use limits::LiveLimits;
pub(super) use own_run::{OwnResponse, OwnRun};
pub(super) use resolve::{Answer, Outcome};
pub use tally::{LiveStatus, LiveTally};
pub(super) use waiter::Waiter;

/// The responses that clients wait for. It ends when this is dropped.
pub(super) struct Live(Arc<Shared>);

/// The part of [`Live`] that waiters and the evaluator share.
struct Shared {
    registry: Arc<Registry>,
    state: StateReader,
    limits: LiveLimits,
    entries: Mutex<Entries>,
    /// The turn of a client to take a run out of the budget.
    turn: AsyncMutex<()>,
    /// Wakes the evaluator: an entry is due, or the server ends.
    due: Notify,
    /// Ends the evaluator: nobody is left who could join its runs.
    closed: Notify,
    /// Whether the evaluator runs. It is started with the first waiter.
    evaluator: OnceLock<()>,
    /// The runtime of its thread.
    runtime: OnceLock<Handle>,
}

/// Why a request cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A limit of waiters, entries or memory is reached.
    Overloaded,
    /// The server shuts down: the waits end until this moment.
    Ending(Instant),
}

/// Returns a random moment between now and this one: clients that end their waits at such ones do
/// not connect to another server all at once.
fn moment_until(end: Instant) -> Instant {
    let now = Instant::now();
    now + end.saturating_duration_since(now).mul_f64(fastrand::f64())
}

impl Live {
    pub(super) fn new(
        registry: Arc<Registry>,
        state: StateReader,
        limits: LiveLimits,
        tally: LiveTally,
    ) -> Self {
        let entries = Entries::new(limits.clone(), tally, state.snapshot());
        Self(Arc::new(Shared {
            registry,
            state,
            limits,
            entries: Mutex::new(entries),
            turn: AsyncMutex::new(()),
            due: Notify::new(),
            closed: Notify::new(),
            evaluator: OnceLock::new(),
            runtime: OnceLock::new(),
        }))
    }

    pub(super) fn limits(&self) -> &LiveLimits {
        &self.0.limits
    }

    /// Lets a client wait for the next version of this answer.
    ///
    /// # Errors
    /// Returns an error if it cannot wait.
    pub(super) async fn wait(&self, client: Client, answer: Answer) -> Result<Waiter, Refusal> {
        Waiter::new(Arc::clone(&self.0), client, answer).await
    }

    /// Returns how a request that waits gets its response, which is not cached, if it came when this
    /// generation was the newest one: clients that connect again and again cause no more runs than
    /// `min-interval` allows.
    pub(super) fn own_response(
        &self,
        request: &GuestRequest,
        since: Generation,
    ) -> OwnResponse<OwnRun> {
        // The evaluator forgets the answers of runs.
        self.0.start_evaluator();
        self.0.own_response(request, since)
    }

    /// Counts a request that is refused.
    pub(super) fn refuse(&self) {
        self.0.entries().refuse();
    }

    /// Returns whether the server ends all waits.
    pub(super) fn is_ending(&self) -> bool {
        self.0.entries().ending().is_some()
    }

    /// Ends all waits within this time, each one at a random moment.
    pub(super) fn end(&self, within: Duration) {
        let now = Instant::now();
        let end = now.checked_add(within).unwrap_or_else(|| now + Duration::from_hours(24));
        self.0.entries().end(end);
        self.0.due.notify_one();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.entries().end(Instant::now());
        self.0.due.notify_one();
        self.0.closed.notify_one();
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing that panics is done while it is held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the evaluator, unless it runs.
    fn start_evaluator(self: &Arc<Self>) {
        self.evaluator.get_or_init(|| {
            let shared = Arc::clone(self);
            // From the first waiter on.
            let changes = Changes::new(&self.registry, &self.state);
            let started = threads::start_runtime("live", move |runtime| {
                priority::lower_thread();
                shared.runtime.get_or_init(|| runtime.handle().clone());
                runtime.block_on(evaluator::run(shared, changes));
            });
            if let Err(error) = started {
                warn!(%error, "no thread for live responses: no more threads can be created; the thread of the connection is used");
                let changes = Changes::new(&self.registry, &self.state);
                tokio::spawn(evaluator::run(Arc::clone(self), changes));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use super::fixture::Fixture;
    use super::resolve::Answer;
    use crate::registry::{Mount, Mounts};
    use hyper::HeaderMap;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    /// The run of a module that fails on probation ends with a response of the module before, on the
    /// state at its start.
    #[tokio::test]
    async fn a_response_of_another_module_to_an_older_state_is_not_a_version() {
        let fixture = Fixture::new();
        let older = fixture.answer().await.outcome;
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        let newer = fixture.answer().await.outcome.unwrap();
        let mut first = fixture.wait(HeaderMap::new()).await.unwrap();
        let module = fixture.registry.at("/").unwrap().module().unwrap();
        fixture.registry.exchange(Mounts::new(Arc::new(Mount::api(module))));
        let mount = fixture.registry.at("/").unwrap();
        let active = mount.active().map(|active| Arc::clone(&active));
        let asked_at = fixture.publisher.reader().snapshot().generation();
        let answer = Answer { mount, active, outcome: older, is_failure: false, asked_at };
        let mut second = fixture.wait_after(HeaderMap::new(), answer).await.unwrap();
        for waiter in [&mut first, &mut second] {
            let body = waiter.newest().await.unwrap().content().text().unwrap().clone();
            assert_eq!(body, newer.plain().body);
        }
    }

    #[tokio::test]
    async fn no_client_begins_to_wait_after_the_end() {
        let fixture = Fixture::new();
        assert!(fixture.wait(HeaderMap::new()).await.is_ok());
        fixture.live.end(Duration::MAX);
        let refusal = fixture.wait(HeaderMap::new()).await.err();
        assert!(
            matches!(refusal, Some(Refusal::Ending(end)) if end > Instant::now()),
            "{refusal:?}"
        );
    }
}
