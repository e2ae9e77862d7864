//! Warms the cache of a mount with requests that were frequent in another process.

use std::sync::Arc;

use http::{Method, StatusCode};
use relayer_rest_sandbox::{GuestRequest, Module};
use relayer_rest_state::StateReader;

use super::mount::Mount;

/// A frequent request, and the response to it.
#[derive(Debug, Clone)]
pub struct HotRequest {
    /// The request with only the headers that were read, and with the query only if it was
    /// read.
    pub request: Arc<GuestRequest>,
    /// The status of the response.
    pub status: StatusCode,
    /// About how often the request was made.
    pub hits: u64,
}

/// Whether a request has a cached response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// It has one.
    Warm,
    /// The response is that the state is not known (503), which it was before.
    NotReady,
    /// The module gives no response.
    Failed,
}

impl Mount {
    /// Returns at most `count` requests with a cached response, the most frequent first.
    #[must_use]
    pub fn hot_requests(&self, count: usize) -> Vec<HotRequest> {
        let Some(module) = self.module() else { return Vec::new() };
        let hottest = self.cache().hottest(&module, count);
        let cached = hottest.into_iter().filter(|stats| stats.request.method == Method::GET);
        let cached = cached.filter_map(|stats| {
            let status = stats.response?.status();
            Some(HotRequest { request: stats.request, status, hits: stats.hits })
        });
        cached.collect()
    }

    /// Runs the active module on requests, one after the other, and caches its responses. The
    /// runs are not counted, and failures have no effect.
    pub async fn warm(&self, requests: &[HotRequest], state: &StateReader) -> Vec<Warmth> {
        const NOT_READY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        let Some(module) = self.module().map(Module::afresh) else {
            return vec![Warmth::Failed; requests.len()];
        };
        let mut all = Vec::with_capacity(requests.len());
        for HotRequest { request, status, hits } in requests {
            let response = self.cache().get_or_run(&module, Arc::clone(request), state).await;
            all.push(match response {
                Ok(response) if response.status() == NOT_READY && *status != NOT_READY => {
                    Warmth::NotReady
                }
                Ok(response) => {
                    response.set_hits(*hits);
                    Warmth::Warm
                }
                Err(_) => Warmth::Failed,
            });
        }
        all
    }
}
