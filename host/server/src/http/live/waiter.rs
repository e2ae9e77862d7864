//! A client that waits for the next version of a response.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::GuestRequest;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::content::Content;
use super::entries::{Added, EntryId, NotAdded};
use super::key::Key;
use super::resolve::{self, Answer, Missed};
use super::version::{Body, Version};
use super::{Refusal, Shared};

/// The maximum number of answers that a client asks for while modules are activated.
const MAX_TRIES: u32 = 10;

/// A client that waits until this is dropped.
pub(in crate::http) struct Waiter {
    shared: Arc<Shared>,
    client: Client,
    added: Added,
}

impl Waiter {
    pub(super) async fn new(
        shared: Arc<Shared>,
        client: Client,
        answer: Answer,
    ) -> Result<Self, Refusal> {
        shared.start_evaluator();
        let added = shared.join(&client, Some(answer)).await?;
        Ok(Self { shared, client, added })
    }

    /// Returns the newest version.
    pub(super) async fn newest(&mut self) -> Arc<Version> {
        loop {
            let version = self.added.versions.newest();
            if !self.must_move(version.content()) {
                return version;
            }
            // Boxed, because it is rare, and enlarges the future of each client.
            if let Err(ended) = Box::pin(self.move_on()).await {
                return ended;
            }
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

    /// Waits for a newer version, and returns it.
    pub(super) async fn next(&mut self) -> Arc<Version> {
        // A move that was interrupted is repeated.
        if !self.must_move(self.added.versions.peek().content()) {
            self.added.versions.changed().await;
        }
        self.newest().await
    }

    /// Looks for the entry of the client's request. Returns the last version if the limits leave
    /// no room for it.
    async fn move_on(&mut self) -> Result<(), Arc<Version>> {
        // It counts only once.
        self.shared.entries().remove(self.added.id, &self.client);
        self.added.id = EntryId::MAX;
        let refusal = match self.shared.join(&self.client, None).await {
            Ok(added) => {
                self.added = added;
                return Ok(());
            }
            Err(refusal) => refusal,
        };
        let within = match refusal {
            Refusal::Ending => self.shared.entries().ending().unwrap_or_default(),
            Refusal::Overloaded => Duration::ZERO,
        };
        let body = Body::new(u64::MAX, Content::Ended(within), Vec::new(), None);
        Err(Arc::new(Version { body, stale_since: None }))
    }
}

/// The answer to a client, or the entry of failures that it was added to.
enum Resolved {
    Answer(Answer),
    Failure(Added),
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.shared.entries().remove(self.added.id, &self.client);
    }
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
                if entries.has_ended() {
                    return Err(Refusal::Ending);
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
        let joined = self.entries().join_failure(client, request, &self.registry);
        joined.map(Resolved::Failure).ok_or(missed)
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
