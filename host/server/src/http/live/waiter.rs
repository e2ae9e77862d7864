//! A client that waits for the next version of a response.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::GuestRequest;

use super::broadcast::Subscriber;
use super::client::Client;
use super::content::Content;
use super::entries::EntryId;
use super::resolve::{Answer, resolve};
use super::version::{Body, Version};
use super::{Refusal, Shared};

/// The maximum number of answers that a client asks for while modules are activated.
const MAX_TRIES: u32 = 10;

/// A client that waits until this is dropped.
pub(in crate::http) struct Waiter {
    shared: Arc<Shared>,
    client: Client,
    entry: EntryId,
    versions: Subscriber,
}

impl Waiter {
    pub(super) async fn new(
        shared: Arc<Shared>,
        client: Client,
        answer: Answer,
    ) -> Result<Self, Refusal> {
        shared.start_evaluator();
        let (entry, versions) = shared.join(&client, answer).await?;
        Ok(Self { shared, client, entry, versions })
    }

    /// Returns the newest version.
    pub(super) async fn newest(&mut self) -> Arc<Version> {
        loop {
            let version = self.versions.newest();
            match version.content() {
                Content::Moved => {
                    // Boxed, because it is rare, and enlarges the future of each client.
                    if let Err(ended) = Box::pin(self.move_on()).await {
                        return ended;
                    }
                }
                _ => return version,
            }
        }
    }

    /// Waits for a newer version, and returns it.
    pub(super) async fn next(&mut self) -> Arc<Version> {
        // A move that was interrupted is repeated.
        if !matches!(self.versions.peek().content(), Content::Moved) {
            self.versions.changed().await;
        }
        self.newest().await
    }

    /// Looks for the entry of the client's request. Returns the last version if the limits leave
    /// no room for it.
    async fn move_on(&mut self) -> Result<(), Arc<Version>> {
        let Shared { registry, state, .. } = &*self.shared;
        let answer = resolve(registry, state, &self.client.request()).await;
        // It counts only once.
        self.shared.entries().remove(self.entry, &self.client);
        self.entry = EntryId::MAX;
        if let Ok((entry, versions)) = self.shared.join(&self.client, answer).await {
            self.entry = entry;
            self.versions = versions;
            return Ok(());
        }
        let content = Content::Ended(Duration::ZERO);
        let body = Body::new(u64::MAX, content, Vec::new(), None);
        Err(Arc::new(Version { body, stale_since: None }))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.shared.entries().remove(self.entry, &self.client);
    }
}

impl Shared {
    /// Adds a waiter, whose answer is asked for again if another module was activated meanwhile.
    async fn join(
        &self,
        client: &Client,
        mut answer: Answer,
    ) -> Result<(EntryId, Subscriber), Refusal> {
        let request = client.request();
        for _ in 0..MAX_TRIES {
            match self.add(client, &request, answer) {
                Err(Refusal::Outdated) => {}
                added => return added,
            }
            answer = resolve(&self.registry, &self.state, &request).await;
        }
        Err(Refusal::Overloaded)
    }

    fn add(
        &self,
        client: &Client,
        request: &Arc<GuestRequest>,
        answer: Answer,
    ) -> Result<(EntryId, Subscriber), Refusal> {
        let mut entries = self.entries();
        entries.observe(&self.state.snapshot());
        let added = entries.add(client, request, answer, &self.registry);
        // It may be due at once.
        self.due.notify_one();
        added
    }
}
