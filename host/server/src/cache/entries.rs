//! Cached responses by key, bounded in bytes.
//!
//! The library's eviction policy resists scans: requests that are made once do not evict
//! the responses to requests that are made again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};
use relayer_rest_sandbox::Digest;
use relayer_rest_state::Snapshot;

use super::hot_requests::RequestStats;
use super::key::{CacheKey, CacheKeyRef, Inputs, RequestRef};
use super::recorded::RecordedResponse;

/// The typical size of a cached chain or error, in bytes. The library needs an estimate
/// of the number of entries.
const TYPICAL_SIZE: u64 = 2048;

/// The library's overhead for an entry, in bytes.
const OVERHEAD: usize = 128;

/// The maximum number of headers in a key. Responses that depend on more are not cached.
const MAX_HEADERS: usize = 16;

pub(super) struct Entries {
    cache: Cache<CacheKey, Entry, Size, DefaultHashBuilder, Evictions>,
    evictions: Evictions,
}

/// Counts the entries that were evicted to make room for others.
#[derive(Debug, Clone, Default)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<CacheKey, Entry> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: CacheKey, entry: Entry) {
        if matches!(entry, Entry::Response(_)) {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

#[derive(Clone)]
enum Entry {
    Response(Arc<RecordedResponse>),
    /// The response depends on these inputs: it is cached under the key with the values
    /// that the request has for them.
    Varies(Arc<Inputs>),
    /// The responses are not cached, because not all of their reads are recorded or
    /// because they depend on too many headers. Requests do not share runs.
    Pass,
}

/// A request without a cached response, and the key under which requests can share a run;
/// `None` if they do not.
#[derive(Debug)]
pub struct Miss(pub(super) Option<CacheKey>);

/// Why a response is never cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncacheable {
    /// The capacity of the cache is 0.
    Disabled,
    /// The module gave a command.
    Command,
    /// Not all reads are recorded.
    UnrecordedReads,
    /// The response depends on too many headers.
    TooManyHeaders,
    /// The response is larger than the cache.
    TooLarge,
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
            // The capacity is divided among shards: with more than one, a response larger
            // than its shard's part would not fit.
            .shards(1)
            .build()
            .expect("all that has to be set is set");
        let evictions = Evictions::default();
        let hasher = DefaultHashBuilder::default();
        let cache = Cache::with_options(options, Size, hasher, evictions.clone());
        Self { cache, evictions }
    }

    /// Returns the cached response if it is valid for the snapshot; otherwise, how to run
    /// the module.
    pub(super) fn find(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Result<Arc<RecordedResponse>, Miss> {
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
        match self.cache.get(&key) {
            Some(Entry::Varies(inputs)) => {
                let values = inputs.encode(request_ref);
                let key = key.with(&values);
                current(self.cache.get(&key)).ok_or_else(|| Miss(Some(key.key())))
            }
            Some(Entry::Pass) => Err(Miss(None)),
            entry => current(entry).ok_or_else(|| Miss(Some(key.key()))),
        }
    }

    /// Returns the cached response, valid or not.
    pub(super) fn peek(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
    ) -> Option<Arc<RecordedResponse>> {
        let key = CacheKeyRef::new(module, request_ref);
        let entry = match self.cache.peek(&key)? {
            Entry::Varies(inputs) => self.cache.peek(&key.with(&inputs.encode(request_ref)))?,
            entry => entry,
        };
        match entry {
            Entry::Response(response) => Some(response),
            Entry::Varies(_) | Entry::Pass => None,
        }
    }

    /// Returns why a response is not cached, if it never is.
    pub(super) fn uncacheable(&self, response: &RecordedResponse) -> Option<Uncacheable> {
        let reads = response.reads();
        if !response.commands().is_empty() {
            Some(Uncacheable::Command)
        } else if !reads.is_complete() {
            Some(Uncacheable::UnrecordedReads)
        } else if Inputs::default().and(reads).header_count() > MAX_HEADERS {
            Some(Uncacheable::TooManyHeaders)
        } else if (OVERHEAD + response.size()) as u64 > self.cache.capacity() {
            Some(Uncacheable::TooLarge)
        } else {
            None
        }
    }

    /// Caches a response, and replaces any older one.
    pub(super) fn insert(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        response: &Arc<RecordedResponse>,
    ) {
        let key = CacheKeyRef::new(module, request_ref);
        let before = self.cache.peek(&key);
        let known = match &before {
            Some(Entry::Varies(inputs)) => Arc::clone(inputs),
            _ => Arc::default(),
        };
        let inputs = known.and(response.reads());
        if !response.reads().is_complete() || inputs.header_count() > MAX_HEADERS {
            // Other requests may have responses that can be cached.
            if before.is_none() {
                self.cache.insert(key.key(), Entry::Pass);
            }
            return;
        }
        let entry = Entry::Response(Arc::clone(response));
        let insert = |key: CacheKeyRef<'_>| {
            if let Some(Entry::Response(before)) = self.cache.peek(&key) {
                response.count(before.hits());
            }
            self.cache.insert(key.key(), entry);
        };
        if inputs.are_none() {
            return insert(key);
        }
        let values = inputs.encode(request_ref);
        if inputs != *known {
            self.cache.insert(key.key(), Entry::Varies(inputs.into()));
        }
        insert(key.with(&values));
    }

    /// Adds the requests to a module whose responses are cached.
    pub(super) fn add(&self, module: Digest, stats: &mut Vec<RequestStats>) {
        stats.extend(self.cache.iter().filter_map(|(key, entry)| match entry {
            Entry::Response(response) if key.module() == module => Some(RequestStats {
                request: Arc::clone(response.request()),
                hits: response.hits(),
                response: Some(response),
            }),
            _ => None,
        }));
    }

    /// Drops responses that were requested only once.
    pub(super) fn release_unused(&self) {
        self.cache.retain(|_, entry| match entry {
            Entry::Response(response) => response.hits() > 1,
            Entry::Varies(_) | Entry::Pass => true,
        });
    }

    pub(super) fn size(&self) -> u64 {
        self.cache.weight()
    }

    /// Returns the number of responses that were evicted to make room for others.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions.0.load(Relaxed)
    }
}
