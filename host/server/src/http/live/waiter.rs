//! A client that waits for the next version of a response.

use std::sync::Arc;

use relayer_rest_sandbox::GuestRequest;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::content::Content;
use super::entries::{Added, NotAdded};
use super::key::Key;
use super::resolve::{self, Answer, Missed};
use super::version::Version;
use super::{Refusal, Shared};

/// The maximum number of answers that a client asks for while modules are activated.
const MAX_TRIES: u32 = 10;

/// A client that waits until this is dropped.
pub(in crate::http) struct Waiter {
    shared: Arc<Shared>,
    client: Client,
    /// The entry; `None` while the client moves to another one, also if that was interrupted.
    added: Option<Added>,
}

impl Waiter {
    pub(super) async fn new(
        shared: Arc<Shared>,
        client: Client,
        answer: Answer,
    ) -> Result<Self, Refusal> {
        shared.start_evaluator();
        let added = Some(shared.join(&client, Some(answer)).await?);
        Ok(Self { shared, client, added })
    }

    /// Returns the newest version. May be cancelled.
    ///
    /// # Errors
    /// Returns an error if the client can no longer wait.
    pub(super) async fn newest(&mut self) -> Result<Arc<Version>, Refusal> {
        loop {
            let Some(added) = &mut self.added else {
                // Boxed, because it is rare, and enlarges the future of each client.
                self.added = Some(Box::pin(self.shared.join(&self.client, None)).await?);
                continue;
            };
            let version = added.versions.newest();
            if let Content::Ended(end) = version.content() {
                return Err(Refusal::Ending(*end));
            }
            if !self.must_move(version.content()) {
                return Ok(version);
            }
            self.leave();
        }
    }

    /// Returns whether the client's request has a response of its own.
    fn must_move(&self, content: &Content) -> bool {
        match content {
            Content::Moved => true,
            Content::Failure(_, key) => {
                let request = self.client.request();
                let mounts = self.shared.registry.now();
                *key != Key::of_failure(&request, mounts.route(request.target.path()).path())
            }
            _ => false,
        }
    }

    /// Waits for a newer version, and returns it. May be cancelled.
    ///
    /// # Errors
    /// Returns an error if the client can no longer wait.
    pub(super) async fn next(&mut self) -> Result<Arc<Version>, Refusal> {
        if let Some(added) = &mut self.added {
            added.versions.changed().await;
        }
        self.newest().await
    }

    /// Leaves the entry.
    fn leave(&mut self) {
        if let Some(added) = self.added.take() {
            self.shared.entries().remove(added.id, &self.client);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The answer to a client, or the entry of failures that it was added to.
enum Resolved {
    Answer(Answer),
    Failure(Added),
}

impl Shared {
    /// Adds a waiter with this answer. Without one, or if another module was activated
    /// meanwhile, the answer is asked for.
    async fn join(&self, client: &Client, mut answer: Option<Answer>) -> Result<Added, Refusal> {
        let request = client.request();
        for _ in 0..MAX_TRIES {
            let current = match answer.take() {
                Some(answer) => answer,
                None => match self.resolve(client, &request).await? {
                    Resolved::Answer(answer) => answer,
                    Resolved::Failure(added) => return Ok(added),
                },
            };
            match self.add(client, &request, current) {
                Err(NotAdded::Outdated) => {}
                Err(NotAdded::Refused(refusal)) => return Err(refusal),
                Ok(added) => return Ok(added),
            }
        }
        Err(Refusal::Overloaded)
    }

    /// Returns the answer to a request: the cached one, or by a run as soon as the budget has
    /// one. If the module fails for equal requests, the client joins them.
    async fn resolve(
        &self,
        client: &Client,
        request: &Arc<GuestRequest>,
    ) -> Result<Resolved, Refusal> {
        if let Ok(resolved) = self.known(client, request) {
            return Ok(resolved);
        }
        // Clients take turns: if all waited for the budget, each run would wake all of them.
        let turn = self.turn.lock().await;
        let missed = loop {
            let missed = match self.known(client, request) {
                Ok(resolved) => return Ok(resolved),
                Err(missed) => missed,
            };
            let taken = {
                let mut entries = self.entries();
                if let Some(end) = entries.ending() {
                    return Err(Refusal::Ending(end));
                }
                entries.take_run(Instant::now())
            };
            match taken {
                Ok(()) => break missed,
                Err(later) => sleep_until(later).await,
            }
        };
        drop(turn);
        let answer = missed.run(&self.state).await;
        self.entries().ran();
        Ok(Resolved::Answer(answer))
    }

    /// Returns the answer to a request, or the entry of its failures, if no run is needed.
    fn known(&self, client: &Client, request: &Arc<GuestRequest>) -> Result<Resolved, Missed> {
        let missed = match resolve::find(&self.registry, &self.state, request) {
            Ok(answer) => return Ok(Resolved::Answer(answer)),
            Err(missed) => missed,
        };
        let mut entries = self.entries();
        if let Some(added) = entries.join_failure(client, request, &self.registry) {
            return Ok(Resolved::Failure(added));
        }
        let failure = entries.recent_failure(request, &self.registry);
        failure.map(Resolved::Answer).ok_or(missed)
    }

    fn add(
        &self,
        client: &Client,
        request: &Arc<GuestRequest>,
        answer: Answer,
    ) -> Result<Added, NotAdded> {
        let mut entries = self.entries();
        entries.observe(&self.state.snapshot());
        let added = entries.add(client, request, answer, &self.registry);
        // It may be due at once.
        self.due.notify_one();
        added
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Client, Content, Waiter};
    use crate::http::connections::Peer;
    use crate::http::live::fixture::{Fixture, request};
    use crate::http::live::resolve::Answer;
    use bytes::Bytes;
    use futures_util::FutureExt;
    use std::time::Duration;
    use tokio::time::Instant;

    /// A comment of its stream interrupts a client that waits for a run of its own.
    #[tokio::test]
    async fn a_client_whose_move_was_interrupted_moves_on() {
        let fixture = Fixture::new();
        let shared = Arc::clone(&fixture.live.0);
        let waiter = async |headers: &[(&'static str, &str)]| {
            let mut request = request("/state");
            for (name, value) in headers {
                request.headers.insert(*name, value.parse().unwrap());
            }
            let client = Client::new(&request, Peer::SEVERAL);
            let added = shared.join(&client, Some(fixture.answer().await)).await;
            Waiter { shared: Arc::clone(&shared), client, added: added.ok() }
        };
        let mut first = waiter(&[]).await;
        let mut second = waiter(&[("x-other", "1")]).await;
        assert!(second.next().await.is_ok());
        let mut due = Instant::now();
        let mut evaluate = |is_failure| {
            let snapshot = fixture.publisher.reader().snapshot();
            let mut entries = shared.entries();
            entries.observe(&snapshot);
            due += Duration::from_secs(2);
            let task = entries.take_due(due).pop().unwrap();
            let mount = fixture.registry.at("/").unwrap();
            let active = mount.active().map(|active| Arc::clone(&active));
            let outcome = Err(Arc::new(hyper::Response::new(Bytes::from_static(b"failed"))));
            let answer = Answer { mount, active, outcome, is_failure };
            entries.complete(task, answer, true, &fixture.registry);
        };
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        evaluate(true);
        assert!(matches!(first.next().await.unwrap().content(), Content::Failure(..)));
        // The other request may succeed, and needs a run.
        let turn = shared.turn.lock().await;
        assert!(second.next().now_or_never().is_none());
        assert_eq!(fixture.tally.status().waiters, 1);
        // Its next version is not the response of the client.
        evaluate(false);
        assert!(matches!(first.next().await.unwrap().content(), Content::Error(_)));
        drop((turn, first));
        let version = second.next().await.unwrap();
        let response = fixture.answer().await.outcome.unwrap();
        assert_eq!(version.content().text(), Some(&response.plain().body));
        assert_eq!((fixture.tally.status().waiters, fixture.tally.status().entries), (1, 1));
        assert!(second.next().now_or_never().is_none(), "nothing has changed");
    }
}
