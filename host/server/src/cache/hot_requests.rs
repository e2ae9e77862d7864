//! Counts of requests whose responses are not cached. A new module is compared with the
//! active one on these requests, too.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::Cache;
use relayer_rest_sandbox::{Digest, GuestRequest};

use super::key::{CacheKey, CacheKeyRef, RequestRef};
use super::recorded::RecordedResponse;

/// The maximum number of requests that are counted.
const MAX_REQUESTS: usize = 256;

/// Requests with a longer target, in bytes, or with more headers are not counted.
const MAX_TARGET: usize = 1024;
const MAX_HEADERS: usize = 16;

/// A request, how often it was made, and its cached response, if any.
#[derive(Debug, Clone)]
pub struct RequestStats {
    /// The request with only the headers that were read, and with the query only if it
    /// was read.
    pub request: Arc<GuestRequest>,
    /// About how often the request was made.
    pub hits: u64,
    /// The cached response, which may be out of date.
    pub response: Option<Arc<RecordedResponse>>,
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
    /// Counts the request of a response that is not cached.
    pub(super) fn count(&self, module: Digest, response: &RecordedResponse) {
        let request = response.request();
        if request.target.as_str().len() > MAX_TARGET || request.headers.len() > MAX_HEADERS {
            return;
        }
        let key = CacheKeyRef::new(module, RequestRef::from(&**request));
        if let Some(counted) = self.0.get(&key) {
            counted.times.fetch_add(1, Relaxed);
        } else {
            let request = Arc::clone(request);
            self.0.insert(key.key(), Arc::new(Entry { request, times: AtomicU64::new(1) }));
        }
    }

    /// Adds the counted requests to a module.
    pub(super) fn add(&self, module: Digest, requests: &mut Vec<RequestStats>) {
        let of_module = self.0.iter().filter(|(key, _)| key.module() == module);
        requests.extend(of_module.map(|(_, counted)| RequestStats {
            request: Arc::clone(&counted.request),
            hits: counted.times.load(Relaxed),
            response: None,
        }));
    }
}

/// Returns at most `count` requests, the most frequent first.
pub(super) fn hottest(mut requests: Vec<RequestStats>, count: usize) -> Vec<RequestStats> {
    requests.sort_by_key(|stats| Reverse(stats.hits));
    requests.truncate(count);
    requests
}
