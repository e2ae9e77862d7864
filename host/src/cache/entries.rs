//! Answers by question, within a number of bytes.
//!
//! What is kept when there is no room is the choice of a library that resists
//! scans: questions that are asked once do not push out those that are asked
//! again and again.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::hot_requests::RequestStats;
use super::key::{CacheKey, CacheKeyRef, Inputs, RequestRef};
use crate::module::Digest;
use crate::response::Response;
use crate::state::Snapshot;

/// What an answer to a chain or an error takes, in bytes; the library wants to
/// know how many entries there may be.
const TYPICAL_SIZE: u64 = 2048;

/// What the library takes for an entry, in bytes.
const OVERHEAD: usize = 128;

/// More headers than this are not worth telling requests apart by.
const MAX_HEADERS: usize = 16;

pub(super) struct Entries(Cache<CacheKey, Entry, Size>);

/// What stands under a question.
#[derive(Clone)]
enum Entry {
    Response(Arc<Response>),
    /// The answer depends on these inputs: it stands under the question with the
    /// values that the request has for them.
    Varies(Arc<Inputs>),
    /// The responses are not cached, because of all that they depend on: requests do
    /// not wait for the runs of others.
    Pass,
}

/// Why no cached response is returned.
pub(super) enum Miss {
    /// Requests under this key can share a run.
    Shared(CacheKey),
    Pass,
}

#[derive(Clone)]
struct Size;

impl Weighter<CacheKey, Entry> for Size {
    fn weight(&self, key: &CacheKey, entry: &Entry) -> u64 {
        let entry = match entry {
            Entry::Response(response) => response.size(),
            Entry::Varies(inputs) => inputs.size(),
            Entry::Pass => 0,
        };
        (OVERHEAD + key.size() + entry) as u64
    }
}

impl Entries {
    pub(super) fn new(capacity: u64) -> Self {
        let count = usize::try_from(capacity / TYPICAL_SIZE).unwrap_or(usize::MAX).max(16);
        let options = OptionsBuilder::new()
            .weight_capacity(capacity)
            .estimated_items_capacity(count)
            // Each shard has a part of the capacity: more than one, and an
            // answer of more than that part would not fit.
            .shards(1)
            .build()
            .expect("all that has to be set is set");
        let lifecycle = DefaultLifecycle::default();
        Self(Cache::with_options(options, Size, DefaultHashBuilder::default(), lifecycle))
    }

    /// The answer that is remembered and is still the one, or else the key to
    /// ask under.
    pub(super) fn find(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Arc<Response>, Miss> {
        let key = CacheKeyRef::new(module, request_ref);
        let current = |entry| match entry {
            Some(Entry::Response(response))
                if response.reads().is_valid_for(
                    snapshot,
                    request_ref.query,
                    request_ref.headers,
                ) =>
            {
                response.count(1);
                Some(response)
            }
            _ => None,
        };
        match self.0.get(&key) {
            Some(Entry::Varies(inputs)) => {
                let values = inputs.encode(request_ref);
                let key = key.with(&values);
                current(self.0.get(&key)).ok_or_else(|| Miss::Shared(key.key()))
            }
            Some(Entry::Pass) => Err(Miss::Pass),
            entry => current(entry).ok_or_else(|| Miss::Shared(key.key())),
        }
    }

    /// Remembers an answer in place of any before.
    pub(super) fn insert(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        response: &Arc<Response>,
    ) {
        let key = CacheKeyRef::new(module, request_ref);
        let before = self.0.peek(&key);
        let known = match &before {
            Some(Entry::Varies(inputs)) => Arc::clone(inputs),
            _ => Arc::default(),
        };
        let inputs = known.and(response.reads());
        if !response.reads().is_complete() || inputs.header_count() > MAX_HEADERS {
            // Other requests may have responses that can be cached.
            if before.is_none() {
                self.0.insert(key.key(), Entry::Pass);
            }
            return;
        }
        let entry = Entry::Response(Arc::clone(response));
        let insert = |key: CacheKeyRef<'_>| {
            if let Some(Entry::Response(before)) = self.0.peek(&key) {
                response.count(before.hits());
            }
            self.0.insert(key.key(), entry);
        };
        if inputs.are_none() {
            return insert(key);
        }
        let values = inputs.encode(request_ref);
        if inputs != *known {
            self.0.insert(key.key(), Entry::Varies(inputs.into()));
        }
        insert(key.with(&values));
    }

    /// Adds the questions to a module whose answers are here.
    pub(super) fn add(&self, module: Digest, stats: &mut Vec<RequestStats>) {
        stats.extend(self.0.iter().filter_map(|(key, entry)| match entry {
            Entry::Response(response) if key.module() == module => Some(RequestStats {
                request: Arc::new(response.request().clone()),
                hits: response.hits(),
                response: Some(response),
            }),
            _ => None,
        }));
    }

    /// Drops the responses that were asked for once and not again.
    #[cfg(feature = "cli")]
    pub(super) fn release_unused(&self) {
        self.0.retain(|_, entry| match entry {
            Entry::Response(response) => response.hits() > 1,
            Entry::Varies(_) | Entry::Pass => true,
        });
    }

    pub(super) fn size(&self) -> u64 {
        self.0.weight()
    }
}
