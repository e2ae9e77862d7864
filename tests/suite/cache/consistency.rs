//! Is any response older than its request? Several threads publish, and send requests to
//! modules, at random. Responses are compared with those of new runs.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;

use bytesize::ByteSize;
use fastrand::Rng;
use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::{GuestRequest, Module, RunPermit};
use relayer_rest_host::response::{CompressionPermits, Response};
use relayer_rest_host::state::{
    ChainConfig, ChainKind, Component, NotReady, Object, RelayerState, Snapshot, StatePublisher,
    StateReader, Worker,
};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{engine, patient, request};

const THREADS: u64 = 4;
const STEPS: u64 = 2_000;

/// The publisher, and all published snapshots in order.
struct Published {
    publisher: StatePublisher,
    snapshots: Mutex<Vec<Arc<Snapshot>>>,
}

impl Published {
    fn count(&self) -> usize {
        self.snapshots.lock().unwrap().len()
    }

    /// Publishes a change, or equal data once more.
    fn change(&self, random: &mut Rng) {
        let mut snapshots = self.snapshots.lock().unwrap();
        let chain = |random: &mut Rng| {
            let id = *random.choice(&["a", "b", "c"]).unwrap();
            let max_gas = Some(random.u64(..3));
            ChainConfig { max_gas, ..ChainConfig::new(id, ChainKind::CosmosSdk) }
        };
        let publisher = &self.publisher;
        match random.u8(..10) {
            0 => publisher.set_chains_not_ready(NotReady::default()),
            1 => publisher.set_not_ready(NotReady::default()),
            2 => publisher.set_ready(),
            3 => publisher.remove_chain(&chain(random).id),
            4 | 5 => publisher.set_chain(chain(random)),
            6 => {
                let version = random.u8(..3).to_string();
                publisher.set_components(vec![Component { name: "ibc-relayer".into(), version }]);
            }
            _ => {
                let worker =
                    |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
                let workers = (0..random.u64(..20)).map(worker).collect();
                publisher.set_state(RelayerState { chains: Vec::new(), workers });
            }
        }
        snapshots.push(publisher.reader().snapshot());
    }
}

/// Returns a random request, one of few.
fn random_request(random: &mut Rng) -> Arc<GuestRequest> {
    let paths = ["/version", "/chains", "/chain/a", "/chain/b", "/chain/c", "/state", "/nothing"];
    let method = if random.u8(..10) == 0 { "POST" } else { "GET" };
    let counts = [("x-count", "1"), ("x-count", "2")];
    let headers = &counts[..random.usize(..3)];
    request(method, random.choice(paths).unwrap(), headers)
}

/// Returns a module's response on a snapshot, from a new run.
async fn plain(module: &Module, request: &Arc<GuestRequest>, snapshot: &Arc<Snapshot>) -> Response {
    let permit = RunPermit::acquire(module).await.unwrap();
    let response = permit.execute(request.clone(), snapshot.clone()).await.unwrap();
    let permits = CompressionPermits::default();
    Response::new(module, &request.method, response, snapshot.generation(), &permits)
}

/// Returns the part of a response that a client sees.
fn seen(response: &Response) -> String {
    let plain = response.plain();
    format!("{} {:?} {}", response.status(), plain.headers, plain.body.escape_ascii())
}

/// Handles a request as the server does, and returns whether it was a cache hit.
async fn send(
    cache: &ResponseCache,
    module: &Module,
    request: &Arc<GuestRequest>,
    state: &StateReader,
) -> (String, bool) {
    let request_ref = RequestRef::from(&**request);
    match cache.find(module, request_ref, &state.snapshot()) {
        Ok(response) => (seen(&response), true),
        Err(_) => (seen(&cache.get_or_run(module, request.clone(), state).await.unwrap()), false),
    }
}

/// Each hit clones the headers, and replaces one of them.
#[tokio::test]
async fn copies_of_headers_have_spare_capacity() {
    let module = Module::embedded(&engine(&patient())).unwrap();
    let publisher = StatePublisher::new();
    publisher.set_components(vec![]);
    let snapshot = publisher.reader().snapshot();
    for path in ["/version", "/nothing"] {
        let response = plain(&module, &request("GET", path, &[]), &snapshot).await;
        let copy = response.plain().headers.clone();
        assert!(copy.capacity() > copy.len(), "{} {copy:?}", copy.len());
    }
}

#[test]
fn responses_are_never_older_than_their_requests() {
    let engine = engine(&patient());
    let modules = [
        Module::embedded(&engine),
        Module::from_bytes(&engine, "counts", &component::that_counts()),
        Module::from_bytes(&engine, "answers", &component::with_response(203, "a", b"b")),
    ];
    let modules = modules.map(Result::unwrap);
    // So small that entries are evicted, too.
    let cache = ResponseCache::new(ByteSize::kib(32));
    let published =
        Published { publisher: StatePublisher::new(), snapshots: Mutex::new(Vec::new()) };
    published.change(&mut Rng::with_seed(0));
    let cached = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Rng::with_seed(1);
            while !done.load(Relaxed) {
                published.change(&mut random);
                thread::sleep(std::time::Duration::from_micros(random.u64(..2_000)));
            }
        });
        let askers: Vec<_> = (0..THREADS)
            .map(|seed| {
                let cache = &cache;
                let modules = &modules;
                let published = &published;
                let cached = &cached;
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_time()
                        .build()
                        .unwrap();
                    let mut random = Rng::with_seed(100 + seed);
                    let state = published.publisher.reader();
                    for _ in 0..STEPS {
                        let module = random.choice(modules).unwrap();
                        let request = random_request(&mut random);
                        let before = published.count() - 1;
                        let (response, was_cached) =
                            runtime.block_on(send(cache, module, &request, &state));
                        cached.fetch_add(u64::from(was_cached), Relaxed);
                        // The response's snapshot is the last one before the request, or
                        // any that was published since.
                        let possible = published.snapshots.lock().unwrap()[before..].to_vec();
                        let is_of = |snapshot: &Arc<Snapshot>| {
                            seen(&runtime.block_on(plain(module, &request, snapshot))) == response
                        };
                        assert!(possible.iter().any(is_of), "{request:?}: {response}");
                    }
                })
            })
            .collect();
        for asker in askers {
            let ended = asker.join();
            if ended.is_err() {
                done.store(true, Relaxed);
            }
            ended.unwrap();
        }
        done.store(true, Relaxed);
    });
    let part = cached.load(Relaxed) * 100 / (THREADS * STEPS);
    assert!((10..=95).contains(&part), "{part} of 100 are cached: the others count as well");
    assert!(published.count() > 100);
}
