//! Does a response depend on the query only if the module reads it?

use std::sync::Arc;

use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::Module;
use relayer_rest_host::state::{StatePublisher, StateReader, sample};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, patient, request};

/// A module, its cache, and the state.
struct Cached {
    cache: ResponseCache,
    module: Module,
    state: StateReader,
    _publisher: StatePublisher,
}

impl Cached {
    fn new(component: &[u8]) -> Self {
        let limits = patient();
        let module = Module::from_bytes(&engine(&limits), "test", component).unwrap();
        let publisher = StatePublisher::new();
        sample(&publisher);
        let cache = ResponseCache::new(limits.response_cache);
        Self { cache, module, state: publisher.reader(), _publisher: publisher }
    }

    /// Returns the status and the body, or the status 0 if the run fails.
    async fn get(&self, target: &str) -> (u16, String) {
        let outcome =
            self.cache.get_or_run(&self.module, request("GET", target, &[]), &self.state).await;
        let Ok(response) = outcome else { return (0, String::new()) };
        let body = String::from_utf8(response.plain().body.to_vec()).unwrap();
        (response.status().as_u16(), body)
    }

    fn is_cached(&self, target: &str) -> bool {
        let request = request("GET", target, &[]);
        let snapshot = self.state.snapshot();
        self.cache.find(&self.module, RequestRef::from(&*request), &snapshot).is_ok()
    }
}

/// Returns the expected response of [`component::that_returns_its_query`] to a target.
fn expected(target: &str) -> (u16, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (path, query) {
        ("/spare", _) => (204, String::new()),
        (_, "trap") => (0, String::new()),
        (_, query) => (200, query.to_owned()),
    }
}

#[tokio::test]
async fn targets_that_differ_in_an_unread_query_share_a_run_and_an_entry() {
    let cached = Cached::new(&component::that_takes(1));
    assert_eq!(cached.get("/a?1").await.0, 204);
    let size = cached.cache.size();
    for target in ["/a", "/a?", "/a?2", "/a?1&2"] {
        assert!(cached.is_cached(target), "{target}");
        assert_eq!(cached.get(target).await.0, 204);
    }
    assert_eq!((cached.module.runs(), cached.cache.size()), (1, size));
    assert!(!cached.is_cached("/b?1"));
    let test = cached.cache.hottest(&cached.module, 10);
    assert_eq!(test.len(), 1);
    assert_eq!(test[0].request.target, "/a", "an unread query is not kept");
}

#[tokio::test]
async fn a_query_that_is_read_has_a_run_and_an_entry_of_its_own() {
    let cached = Cached::new(&component::that_returns_its_query());
    let targets = ["/a?1", "/a", "/a?", "/a?2"];
    for turn in 0..3 {
        for target in targets {
            assert_eq!(cached.get(target).await, expected(target));
            assert!(!cached.is_cached("/a?3"), "{turn}");
        }
    }
    assert_eq!(cached.module.runs(), targets.len() as u64);
    let test = cached.cache.hottest(&cached.module, 10);
    let mut kept: Vec<_> = test.iter().map(|test| test.request.target.to_string()).collect();
    kept.sort();
    assert_eq!(kept, ["/a", "/a?", "/a?1", "/a?2"]);
}

/// Only a call of the function counts, not its import.
#[tokio::test]
async fn a_module_that_imports_the_query_and_does_not_read_it_runs_once() {
    let cached = Cached::new(&component::that_returns_its_query());
    for target in ["/spare?1", "/spare", "/spare?2"] {
        assert_eq!(cached.get(target).await, expected(target));
    }
    assert_eq!(cached.module.runs(), 1);
}

/// Whether the first run for a path reads the query is not known in advance: requests
/// share the run, and get runs of their own if it turns out that it did.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_get_the_response_to_their_own_query() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20 {
        let component = component::that_returns_its_query_after(random.u32(1..1_000_000));
        let cached = Arc::new(Cached::new(&component));
        let queries = ["", "?", "?1", "?22", "?333", "?trap", "?4444"];
        let mut clients = Vec::new();
        for _ in 0..40 {
            let path = random.choice(["/a", "/b", "/spare"]).unwrap();
            let target = format!("{path}{}", random.choice(queries).unwrap());
            let cached = Arc::clone(&cached);
            clients.push(tokio::spawn(async move {
                assert_eq!(cached.get(&target).await, expected(&target), "{target}");
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_client_gets_the_response_to_its_query() {
    let component = component::that_returns_its_query();
    let server = TestServer::builder().component(&component).start().await;
    let mut client = server.connect().await;
    // Often enough for a copy on the thread of the connection.
    for _ in 0..40 {
        for query in ["a=1", "a=2", "%20&", ""] {
            assert_eq!(client.get(&format!("/x?{query}")).await.text(), query);
        }
        assert_eq!(client.get("/x").await.text(), "");
    }
}
