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
use super::entries::Task;
use super::resolve::{self, Answer};
use crate::cache;
use crate::http::worker_threads::RELEASE_INTERVAL;

/// Evaluates entries until the server ends.
pub(super) async fn run(shared: Arc<Shared>, mut changes: Changes) {
    let mut running = FuturesUnordered::new();
    let mut releases = interval(RELEASE_INTERVAL);
    loop {
        let (tasks, next) = {
            let mut entries = shared.entries();
            if entries.ending().is_some() {
                break;
            }
            entries.observe(&shared.state.snapshot());
            entries.forget_runs();
            let tasks = entries.take_due(Instant::now());
            let next = [entries.next_due(Instant::now()), entries.next_forgotten()];
            (tasks, next.into_iter().flatten().min())
        };
        running.extend(tasks.into_iter().map(|task| evaluate(&shared, task)));
        let due = async {
            match next {
                Some(time) => sleep_until(time).await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some((task, answer, was_run)) = running.next() => {
                let mut entries = shared.entries();
                entries.observe(&shared.state.snapshot());
                entries.complete(task, answer, was_run, &shared.registry);
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
    // Requests may have joined these runs, until the last connection has ended.
    let joined = async { while running.next().await.is_some() {} };
    tokio::select! {
        () = joined => {}
        () = shared.closed.notified() => {}
    }
}

/// Returns a task with the answer to it, and whether the module was run for that.
async fn evaluate(shared: &Shared, task: Task) -> (Task, Answer, bool) {
    let span = debug_span!("live", path = task.request.target.path());
    match resolve::find(&shared.registry, &shared.state, &task.request) {
        Ok(answer) => (task, answer, false),
        Err(missed) => (task, missed.run(&shared.state).instrument(span).await, true),
    }
}
