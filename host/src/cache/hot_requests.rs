//! Questions whose answers are not remembered: what a new module is to be
//! asked where there is no answer to compare with.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::Cache;

use super::key::{CacheKey, CacheKeyRef, RequestRef};
use crate::module::{Digest, GuestRequest};
use crate::response::Response;

/// The questions that are kept, at most.
const MAX_REQUESTS: usize = 256;

/// A longer target, in bytes, or more headers: not kept.
const MAX_TARGET: usize = 1024;
const MAX_HEADERS: usize = 16;

/// A question, how often it was asked, and the answer where that is
/// remembered.
#[derive(Debug, Clone)]
pub struct RequestStats {
    /// The question, with those headers only that were read, and with the query
    /// only if it was read.
    pub request: Arc<GuestRequest>,
    /// About how often it was asked.
    pub hits: u64,
    /// The answer, which may be out of date.
    pub response: Option<Arc<Response>>,
}

pub(super) struct HotRequests(Cache<CacheKey, Arc<Entry>>);

struct Entry {
    request: Arc<GuestRequest>,
    times: AtomicU64,
}

impl Default for HotRequests {
    fn default() -> Self {
        Self(Cache::new(MAX_REQUESTS))
    }
}

impl HotRequests {
    /// Counts the question of an answer that nobody remembers.
    pub(super) fn count(&self, module: Digest, answer: &Response) {
        let request = answer.request();
        if request.target.as_str().len() > MAX_TARGET || request.headers.len() > MAX_HEADERS {
            return;
        }
        let key = CacheKeyRef::new(module, RequestRef::from(request));
        if let Some(counted) = self.0.get(&key) {
            counted.times.fetch_add(1, Relaxed);
        } else {
            let request = Arc::new(request.clone());
            self.0.insert(key.key(), Arc::new(Entry { request, times: AtomicU64::new(1) }));
        }
    }

    /// Adds the questions to a module.
    pub(super) fn add(&self, module: Digest, asked: &mut Vec<RequestStats>) {
        let of_module = self.0.iter().filter(|(key, _)| key.module() == module);
        asked.extend(of_module.map(|(_, counted)| RequestStats {
            request: Arc::clone(&counted.request),
            hits: counted.times.load(Relaxed),
            response: None,
        }));
    }
}

/// Those first that are asked most, and no more of them.
pub(super) fn hottest(mut asked: Vec<RequestStats>, count: usize) -> Vec<RequestStats> {
    asked.sort_by_key(|asked| Reverse(asked.hits));
    asked.truncate(count);
    asked
}
