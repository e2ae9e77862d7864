//! A version of a response, which all waiters of an entry share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::header::{ETAG, HeaderValue};
use tokio::sync::OnceCell;

use super::content::Content;
use super::event::{self, Event};
use super::patch;
use super::tally::CountedBytes;
use super::work;
use crate::cache::RecordedResponse;

/// The number of versions from which a version can have patches. A client that skipped more of
/// them is sent the whole body.
const HISTORY: usize = 4;

/// A version of a response.
#[derive(Debug)]
pub(in crate::http) struct Version {
    pub(super) body: Arc<Body>,
    /// The time since which no source has confirmed the values that it was derived from.
    pub(super) stale_since: Option<Instant>,
}

/// The part of a version that is the same while it becomes stale.
#[derive(Debug)]
pub(super) struct Body {
    /// The number of the version: later ones have larger numbers.
    pub(super) number: u64,
    pub(super) content: Content,
    event: OnceLock<Event>,
    /// Patches from versions before this one, each made once.
    patches: Mutex<HashMap<u64, Patch>>,
    /// The texts of versions before this one, the newest last, from which patches can be made.
    before: Vec<(u64, Bytes)>,
    /// The memory of the version; none if the limit left no room.
    counted: Option<CountedBytes>,
}

/// A patch, if it is short enough, and made once.
type Patch = Arc<OnceCell<Option<(Event, CountedBytes)>>>;

impl Version {
    /// Returns the content.
    pub(in crate::http) fn content(&self) -> &Content {
        &self.body.content
    }
}

impl Body {
    pub(super) fn new(
        number: u64,
        content: Content,
        before: Vec<(u64, Bytes)>,
        counted: Option<CountedBytes>,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            content,
            event: OnceLock::new(),
            patches: Mutex::default(),
            before,
            counted,
        })
    }

    /// Returns the texts of this version and of those before it, from which the next one can have
    /// patches.
    pub(super) fn history(&self) -> Vec<(u64, Bytes)> {
        let own = self.content.text().map(|text| (self.number, text.clone()));
        let skipped = (self.before.len() + 1).saturating_sub(HISTORY);
        self.before.iter().skip(skipped).cloned().chain(own).collect()
    }

    /// Returns the maximum size in bytes of a version with this content, in all its forms, without
    /// those before it.
    pub(super) fn max_size(content: &Content) -> usize {
        content.size() + event::max_size(content, etag(content))
    }

    /// Returns the entity tag, if it has one.
    pub(super) fn etag(&self) -> Option<&HeaderValue> {
        etag(&self.content)
    }

    /// Returns whether an entity tag is that of the version, in any encoding.
    pub(super) fn has_etag(&self, tag: &HeaderValue) -> bool {
        tagged(&self.content).is_some_and(|response| response.has_etag(tag))
    }

    /// Returns the version as an event.
    pub(super) fn event(&self) -> Event {
        let make = || Event::new(event::version(&self.content, self.etag()));
        self.event.get_or_init(make).clone()
    }

    /// Returns the difference to the version with this number as an event, if it is shorter
    /// than half of the body. Each patch is made once, on a thread of a lower priority.
    pub(super) async fn patch_from(&self, number: u64) -> Option<Event> {
        let (_, before) = self.before.iter().find(|(before, _)| *before == number)?;
        let (before, now) = (before.clone(), self.content.text()?.clone());
        let cell = {
            let mut patches = self.patches.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(patches.entry(number).or_default())
        };
        let etag = self.etag().cloned();
        let make = async || {
            let counted = self.counted.as_ref()?.count(0)?;
            let make = move || {
                let _compared = counted.count(patch::memory(&before, &now))?;
                let event =
                    Event::new(event::patch(&patch::between(&before, &now)?, etag.as_ref()));
                // As a text, and compressed.
                let counted = counted.count(2 * event.text().len())?;
                Some((event, counted))
            };
            work::run(make).await.flatten()
        };
        Some(cell.get_or_init(make).await.as_ref()?.0.clone())
    }
}

/// Returns the entity tag of a content, if it has one.
fn etag(content: &Content) -> Option<&HeaderValue> {
    tagged(content)?.plain().headers.get(ETAG)
}

/// Returns the response if its entity tag is one of a version: a module can give an error the
/// tag of a success.
fn tagged(content: &Content) -> Option<&RecordedResponse> {
    match content {
        Content::Response(response) if response.status().is_success() => Some(response),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use relayer_rest_state::{Object, Worker};

    use super::super::LiveTally;
    use super::super::content::Content;
    use super::super::fixture::Fixture;
    use super::{Body, patch};

    #[tokio::test]
    async fn a_patch_is_made_once_for_all_clients() {
        let fixture = Fixture::new();
        let content = async || Content::Response(fixture.answer().await.outcome.unwrap());
        let worker =
            |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
        fixture.publisher.update_state(|state| state.workers.extend((0..100).map(worker)));
        let before = content().await.text().unwrap().clone();
        fixture.publisher.update_state(|state| state.workers.push(worker(100)));
        let counted = LiveTally::default().count(0, u64::MAX);
        let body = Body::new(2, content().await, vec![(1, before)], counted);
        let (one, other) = tokio::join!(body.patch_from(1), body.patch_from(1));
        let later = body.patch_from(1).await;
        let [one, other, later] = [one, other, later].map(|event| event.unwrap().text().as_ptr());
        assert_eq!((other, later), (one, one));
        assert!(body.patch_from(0).await.is_none(), "of a version that is not known any more");
    }

    #[tokio::test]
    async fn large_versions_are_compared_only_if_there_is_memory() {
        let fixture = Fixture::new();
        let content = async || Content::Response(fixture.answer().await.outcome.unwrap());
        let worker =
            |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
        fixture.publisher.update_state(|state| state.workers.extend((0..1_000).map(worker)));
        let before = content().await.text().unwrap().clone();
        fixture.publisher.update_state(|state| state.workers.push(worker(1_000)));
        let now = content().await;
        let needed = patch::memory(&before, now.text().unwrap()) as u64;
        let patch = async |limit| {
            let counted = LiveTally::default().count(0, limit);
            let now = Content::Response(fixture.answer().await.outcome.unwrap());
            Body::new(2, now, vec![(1, before.clone())], counted).patch_from(1).await
        };
        assert!(needed > 0 && patch(needed - 1).await.is_none());
        assert!(patch(needed + 1_024).await.is_some());
    }
}
