//! The response cache.

mod consistency;
mod explain;
mod in_flight;
mod query;
mod responses;

use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::state::{StatePublisher, StateReader, sample};
use relayer_rest_tests::server::{engine, patient, request};

/// Limits of one run at a time and no queue: a request that needs another run at the same
/// time is turned away.
fn one_run() -> Limits {
    Limits { concurrency: 1, queue: 0, ..patient() }
}

/// A cache, with a module and a state to use it with.
struct CacheTest {
    cache: ResponseCache,
    module: Module,
    publisher: StatePublisher,
    state: StateReader,
}

impl CacheTest {
    fn new(component: Option<&[u8]>, limits: &Limits) -> Self {
        let engine = engine(limits);
        let module = match component {
            Some(component) => Module::from_bytes(&engine, "test", component),
            None => Module::embedded(&engine),
        };
        let publisher = StatePublisher::new();
        sample(&publisher);
        Self {
            cache: ResponseCache::new(limits.response_cache),
            module: module.unwrap(),
            state: publisher.reader(),
            publisher,
        }
    }

    async fn request(&self, path: &str) -> u16 {
        let outcome =
            self.cache.get_or_run(&self.module, request("GET", path, &[]), &self.state).await;
        outcome.map_or(0, |response| response.status().as_u16())
    }

    fn is_cached(&self, path: &str) -> bool {
        let request = request("GET", path, &[]);
        let snapshot = self.state.snapshot();
        let request_ref = RequestRef::from(&*request);
        self.cache.find(&self.module, request_ref, &snapshot).is_ok()
    }
}
