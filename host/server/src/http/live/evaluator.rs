//! Runs the modules of entries whose values changed, on a thread of its own.
//!
//! The thread has a lower priority than the threads of sockets. A request that joins such
//! a run waits for it, which it would otherwise have to make itself.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::pending;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, interval, sleep_until};
use tracing::{Instrument, debug_span};

use super::Shared;
use super::changes::{Change, Changes};
use super::entries::{EntryId, Task};
use super::resolve::{self, Answer};
use crate::cache;
use crate::http::worker_threads::RELEASE_INTERVAL;

/// The maximum number of concurrent runs: a slow one must not delay the others.
const MAX_RUNS: usize = 4;

/// Evaluates entries until the server ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut changes = Changes::new(&shared.registry, &shared.state);
    // The first waiter came before the changes were followed.
    shared.entries().activated(&shared.registry);
    let mut running = FuturesUnordered::new();
    let mut releases = interval(RELEASE_INTERVAL);
    loop {
        let (tasks, next) = {
            let mut entries = shared.entries();
            if entries.has_ended() {
                break;
            }
            entries.observe(&shared.state.snapshot());
            let tasks = entries.take_due(Instant::now(), MAX_RUNS - running.len());
            let is_full = running.len() + tasks.len() >= MAX_RUNS;
            (tasks, entries.next_due(Instant::now()).filter(|_| !is_full))
        };
        running.extend(tasks.into_iter().map(|task| evaluate(&shared, task)));
        let due = async {
            match next {
                Some(time) => sleep_until(time).await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some((id, answer, was_run)) = running.next() => {
                let mut entries = shared.entries();
                entries.observe(&shared.state.snapshot());
                entries.complete(id, answer, was_run, &shared.registry);
            }
            change = changes.next() => {
                if change == Change::Modules {
                    shared.entries().activated(&shared.registry);
                }
            }
            _ = releases.tick() => cache::release_unused_copies(),
            () = shared.due.notified() => {}
            () = due => {}
        }
    }
    // Requests may have joined these runs.
    while running.next().await.is_some() {}
}

/// Returns the answer to a task, and whether the module was run for it.
async fn evaluate(shared: &Shared, Task { id, request }: Task) -> (EntryId, Answer, bool) {
    let span = debug_span!("live", path = request.target.path());
    match resolve::find(&shared.registry, &shared.state, &request) {
        Ok(answer) => (id, answer, false),
        Err(missed) => (id, missed.run(&shared.state).instrument(span).await, true),
    }
}
