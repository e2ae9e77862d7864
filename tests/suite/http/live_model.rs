//! Does each client see states in their order, each once and whole, and the last one?
//!
//! Clients of all kinds follow numbered states, while states are published and become stale,
//! modules fail, recover, and are swapped and reloaded, mounts are replaced, and clients disconnect.
//! `LIVE_STEPS=100000` makes the run longer, and `LIVE_SEED` chooses another one.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use relayer_rest_host::registry::Mounts;
use relayer_rest_host::reload::{Modules, ReloadError};
use relayer_rest_host::state::{Object, RelayerState, Stale, StatePublisher, Worker};
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::server::{self, TestServer};
use relayer_rest_tests::wait::within;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::live_streams::apply;

/// The workers of which each state has all but one, so that a patch is short.
const WORKERS: u64 = 60;

/// How often the response of `/large` has the number of its state, besides the workers.
const REPEATED: usize = 1 << 15;

/// The settings, which are reloaded.
const SETTINGS: &str = "
[module]
file = 'module.wasm'
dialect = 'any'
[module.limits]
time = '10min'
queue-wait = '10min'
[swap]
time = '10min'
";

/// Returns the workers of the state with this number.
fn workers(number: u64) -> impl Iterator<Item = u64> {
    (0..WORKERS).filter(move |id| *id != number % WORKERS).chain([WORKERS + number])
}

/// Publishes the state with this number.
fn publish(publisher: &StatePublisher, number: u64) {
    let worker = |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
    let workers = workers(number).map(worker).collect();
    publisher.set_state(RelayerState { chains: vec!["a".into()], workers });
}

/// Returns the number of a document, after a comparison with the state of that number.
fn number(document: &Value) -> u64 {
    let number = document["number"].as_u64().unwrap() - WORKERS;
    let workers: Vec<_> = workers(number).map(|id| json!({"id": id, "kind": "Wallet"})).collect();
    let mut expected = json!({"number": WORKERS + number, "workers": workers});
    if document.get("large").is_some() {
        expected["large"] = (WORKERS + number).to_string().repeat(REPEATED).into();
    }
    assert_eq!(*document, expected);
    number
}

/// Returns a module that fails for some states, or another one.
fn any_module(random: &mut fastrand::Rng) -> Vec<u8> {
    component::live(if random.bool() { *b"broken" } else { *b"steady" }, random.u32(..4))
}

/// How fast a client reads the events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Fast,
    Slow,
    /// It reads none between the first state and the end.
    Stopped,
}

/// The client of a server, and the number of the last state after the end.
#[derive(Clone)]
struct Follower {
    address: SocketAddr,
    path: &'static str,
    last: watch::Receiver<Option<u64>>,
    random: fastrand::Rng,
    /// Whether the server may refuse its requests, and end its waits.
    is_refused: bool,
}

/// The events of a client, by kind.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    changes: u64,
    patches: u64,
    failures: u64,
    staleness: u64,
}

/// The state as a client has seen it.
#[derive(Default)]
struct Seen {
    counts: Counts,
    number: Option<u64>,
    /// The least number of the next state, which may be the same after a failure.
    least: u64,
    is_failed: bool,
}

impl Seen {
    /// Records the next state.
    fn see(&mut self, next: u64) {
        assert!(next >= self.least, "{next} after {:?}, not {}", self.number, self.least);
        self.counts.changes += 1;
        (self.number, self.least, self.is_failed) = (Some(next), next + 1, false);
    }

    /// Records a failure, at this state if the response names it.
    fn fail(&mut self, state: Option<u64>) {
        self.counts.failures += 1;
        if !self.is_failed {
            self.least = self.number.unwrap_or(0);
        }
        if let Some(state) = state.map(|id| id - WORKERS) {
            assert!(state >= self.least, "a failure at {state}, before {}", self.least);
            self.least = state;
        }
        self.is_failed = true;
    }
}

impl Follower {
    fn is_last(&self, seen: &Seen) -> bool {
        !seen.is_failed && seen.number.is_some() && *self.last.borrow() == seen.number
    }

    async fn connect(&mut self) -> Client {
        if self.random.bool() {
            Client::http1(self.address).await
        } else {
            Client::http2(self.address).await
        }
    }

    /// Checks the status of a failure, and returns the state that it names.
    fn check_failure(&self, status: u64, body: &Value) -> Option<u64> {
        if self.is_refused && status == 503 {
            assert_eq!(body["result"]["name"], "Overloaded");
            return None;
        }
        assert_eq!(status, 500, "{}: {body}", self.path);
        match self.path {
            "/?mode=error" => Some(body.as_u64().unwrap()),
            "/?mode=panic" => {
                assert_eq!(body["result"]["name"], "Internal");
                None
            }
            other => panic!("{other} does not fail: {body}"),
        }
    }

    /// Follows a stream until the last state, and connects again now and then. Returns the last
    /// document.
    async fn stream(mut self, patches: bool, pace: Pace) -> (Value, Counts) {
        let mut seen = Seen::default();
        let mut tag = None::<String>;
        // A patch after the connection was lost applies to the client's document.
        let mut document = None;
        loop {
            let mut client = self.connect().await;
            let mut headers = Vec::new();
            headers.extend(tag.as_deref().map(|tag| ("last-event-id", tag)));
            headers.extend(patches.then_some(("prefer", "patch")));
            // Compressed, many more events fit into the buffers of a connection.
            let is_compressed = pace != Pace::Stopped && self.random.bool();
            headers.extend(is_compressed.then_some(("accept-encoding", "gzip")));
            let mut is_stale = false;
            let mut events = match Events::try_open(&mut client, self.path, &headers).await {
                Ok(events) => events,
                Err(status) => {
                    assert!(self.is_refused && status == 503, "{status}");
                    sleep(Duration::from_millis(self.random.u64(..20))).await;
                    continue;
                }
            };
            if tag.is_some() && self.is_last(&seen) {
                // Nothing follows for a client that has it.
                assert_eq!(events.next_block().await.unwrap(), ":");
                return (document.unwrap(), seen.counts);
            }
            let most = if pace == Pace::Stopped { u32::MAX } else { self.random.u32(1..200) };
            for _ in 0..most {
                match pace {
                    Pace::Slow => sleep(Duration::from_millis(self.random.u64(..100))).await,
                    Pace::Stopped if seen.number.is_some() && self.last.borrow().is_none() => {
                        self.last.changed().await.unwrap();
                    }
                    _ => {}
                }
                let event = tokio::select! {
                    event = events.next() => event,
                    _ = self.last.changed() => break,
                };
                let Some(event) = event else {
                    assert!(self.is_refused, "the server does not end");
                    break;
                };
                match &*event.name {
                    "change" => document = Some(event.json()),
                    "patch" => {
                        seen.counts.patches += 1;
                        apply(document.as_mut().expect("the body is first"), event.json());
                    }
                    "failed" => {
                        let data = event.json();
                        let status = data["status"].as_u64().unwrap();
                        seen.fail(self.check_failure(status, &data["body"]));
                        assert_eq!(event.id.as_deref(), Some(""));
                        (document, tag) = (None, None);
                        continue;
                    }
                    name => {
                        let now = name == "stale";
                        assert!(name == "stale" || name == "confirmed", "{name}");
                        assert_ne!(is_stale, now, "{name} again");
                        is_stale = now;
                        seen.counts.staleness += 1;
                        if self.is_last(&seen) && !is_stale {
                            return (document.unwrap(), seen.counts);
                        }
                        continue;
                    }
                }
                seen.see(number(document.as_ref().unwrap()));
                tag = event.id;
                if self.is_last(&seen) && !is_stale {
                    return (document.unwrap(), seen.counts);
                }
                if self.random.u32(..50) == 0 {
                    // A response of a later request is not older.
                    let mut client = self.connect().await;
                    let fresh = client.get("/fresh").await;
                    let fresh = number(&serde_json::from_slice(&fresh.body).unwrap());
                    assert!(Some(fresh) >= seen.number, "{fresh} after {:?}", seen.number);
                }
            }
        }
    }

    /// Polls until the last state. Returns the last document.
    async fn poll(mut self) -> (Value, Counts) {
        let mut seen = Seen::default();
        let mut tag = "\"none\"".to_owned();
        let mut client = self.connect().await;
        let mut document = Value::Null;
        while !self.is_last(&seen) {
            let headers = [("if-none-match", &*tag), ("prefer", "wait=1")];
            let response = client.request_with("GET", self.path, &headers).await;
            match response.status.as_u16() {
                // The last one differs from the one before the failure.
                304 => seen.is_failed = false,
                200 => {
                    document = serde_json::from_slice(&response.body).unwrap();
                    let next = number(&document);
                    // The tag of the state before is known.
                    assert_ne!(Some(next), seen.number);
                    seen.see(next);
                    response.header("etag").clone_into(&mut tag);
                }
                status => {
                    let body = serde_json::from_slice(&response.body).unwrap();
                    seen.fail(self.check_failure(status.into(), &body));
                    sleep(Duration::from_millis(self.random.u64(..20))).await;
                }
            }
        }
        (document, seen.counts)
    }
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// The modules of a server, which are reloaded from files.
struct Deployment {
    folder: Folder,
    modules: Modules,
    server: TestServer,
}

impl Deployment {
    async fn new(live: LiveLimits) -> Self {
        let folder = Folder::new();
        let file = folder.write("relayer-rest.toml", SETTINGS);
        folder.replace("module.wasm", component::live(*b"steady", 0));
        let state = StatePublisher::new().reader();
        let modules = server::modules(file.into(), &folder.join("cache"), &state).await;
        // A client may read nothing for the whole run.
        let http = HttpLimits { stalled: Duration::from_hours(1), ..HttpLimits::default() };
        let server = TestServer::builder().registry(Arc::clone(&modules.registry)).live(live);
        let server = server.http(http).without_state().start().await;
        Self { folder, modules, server }
    }

    /// Reloads another file, which creates a mount. Returns whether it was accepted: one that fails
    /// for a present request is not.
    async fn reload(&self, module: &[u8]) -> bool {
        self.folder.replace("module.wasm", module);
        let before = self.server.api();
        match self.modules.reload(&self.server.publisher.reader()).await {
            Ok(report) => {
                let is_replaced = !Arc::ptr_eq(&before, &self.server.api());
                assert_eq!(is_replaced, report.replaced == ["/"]);
                is_replaced
            }
            Err(ReloadError::Rejected(_) | ReloadError::Changed(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn get(server: &TestServer) -> Response {
    server.get("/fresh").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_sees_states_in_their_order_and_the_last_one() {
    let min_interval = Duration::from_millis(1);
    let live = LiveLimits { min_interval, runs_per_second: 1_000_000, ..LiveLimits::default() };
    check(live, false).await;
}

/// There is too little memory for all versions, and clients wait for runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_sees_them_also_within_tight_limits() {
    let live = LiveLimits {
        min_interval: Duration::from_millis(1),
        runs_per_second: 20,
        memory: ByteSize::kib(40),
        ..LiveLimits::default()
    };
    check(live, true).await;
}

/// Checks the states that clients see within these limits.
async fn check(live: LiveLimits, is_refused: bool) {
    let deployment = Deployment::new(live).await;
    let Deployment { server, .. } = &deployment;
    publish(&server.publisher, 0);
    assert!(deployment.reload(&component::live(*b"broken", 0)).await);
    // A module that was activated by a rollback stays when it fails.
    server.api().rollback().unwrap();
    let seed = variable("LIVE_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let (end, last) = watch::channel(None);
    let mut followers = JoinSet::new();
    let slow = |is_slow| if is_slow { Pace::Slow } else { Pace::Fast };
    let paths = ["/", "/?mode=error", "/?mode=panic", "/?other"];
    for (number, path) in (0..16).zip(paths.into_iter().cycle()) {
        let random = random.fork();
        let (address, last) = (server.address, last.clone());
        let follower = Follower { address, path, last, random, is_refused };
        match number / 4 {
            0 => followers.spawn(follower.stream(false, slow(number == 0))),
            1 => followers.spawn(follower.stream(true, slow(number == 5))),
            2 => followers.spawn(follower.stream(true, Pace::Fast)),
            _ => followers.spawn(follower.poll()),
        };
    }
    // The tight limits have no room for these.
    let mut large = JoinSet::new();
    for pace in [Pace::Fast, Pace::Slow, Pace::Stopped].into_iter().filter(|_| !is_refused) {
        let (random, address, last) = (random.fork(), server.address, last.clone());
        let follower = Follower { address, path: "/large", last, random, is_refused };
        large.spawn(async move { (pace, follower.stream(false, pace).await) });
    }
    let mut state = 0;
    let (mut reloads, mut swaps) = (0, 0);
    let mut kinds = HashSet::new();
    let steps = variable("LIVE_STEPS", 3_000);
    for step in 0..steps {
        match random.u32(..1_000) {
            0..600 => {
                state += 1;
                publish(&server.publisher, state);
            }
            // Nothing that they read, and the same state again.
            600..650 => server.publisher.set_components(Vec::new()),
            650..700 => publish(&server.publisher, state),
            700..740 => {
                let since = Instant::now();
                let unconfirmed = random.bool().then_some(Stale { since, chains: false });
                server.publisher.set_stale(unconfirmed);
            }
            // After a failure on probation, the previous module is active already.
            740..780 => drop(server.api().rollback()),
            780..800 => server.registry.exchange(Mounts::new(server.api())),
            800..803 => {
                let module = any_module(&mut random);
                reloads += u32::from(deployment.reload(&module).await);
            }
            803..806 => {
                let swap = server.swap(any_module(&mut random)).await;
                swaps += u32::from(swap.is_accepted());
            }
            806..820 => {
                // Others come and go.
                let mut client = Client::http1(server.address).await;
                let path = format!("/?mode=none&{step}");
                drop(Events::try_open(&mut client, &path, &[]).await);
            }
            820..900 => sleep(Duration::from_micros(random.u64(..3_000))).await,
            _ => tokio::task::yield_now().await,
        }
        kinds.insert(server.api().module().unwrap().digest());
    }
    server.publisher.set_stale(None);
    // A state for which no module fails.
    state += 1;
    state += u64::from((WORKERS + state) % 7 == 3);
    publish(&server.publisher, state);
    end.send(Some(state)).unwrap();
    let now: Value = serde_json::from_slice(&get(server).await.body).unwrap();
    assert_eq!(number(&now), state);
    let mut total = Counts::default();
    while let Some(followed) = within("the last state", followers.join_next()).await {
        let (document, counts) = followed.unwrap();
        assert_eq!(document, now);
        total.changes += counts.changes;
        total.patches += counts.patches;
        total.failures += counts.failures;
        total.staleness += counts.staleness;
    }
    check_large(large, state).await;
    let live = server.live.status();
    println!(
        "seed {seed}: {steps} steps, {state} states, {reloads} reloads, {swaps} swaps, {} modules",
        kinds.len()
    );
    println!("{total:?} {live:?}");
    assert!(reloads > 0 && swaps > 0, "{reloads} reloads, {swaps} swaps");
    assert!(kinds.len() > 1);
    let Counts { patches, failures, staleness, .. } = total;
    assert!(patches > 0 && failures > 0 && staleness > 0, "{total:?}");
    assert!(!is_refused || live.refused > 0, "{live:?}");
}

/// Checks the large documents that clients have at the end: those of the last state.
async fn check_large(mut clients: JoinSet<(Pace, (Value, Counts))>, state: u64) {
    let (mut of_fast, mut of_stopped) = (0, 0);
    while let Some(followed) = within("the last state", clients.join_next()).await {
        let (pace, (document, counts)) = followed.unwrap();
        assert_eq!((number(&document), document.get("large").is_some()), (state, true));
        println!("{pace:?}: {counts:?}");
        match pace {
            Pace::Fast => of_fast = counts.changes,
            Pace::Slow => {}
            Pace::Stopped => of_stopped = counts.changes,
        }
    }
    // It has only the states in the buffers of its connection, which the kernel limits to some MiB.
    assert!(of_stopped <= (of_fast / 2).max(150), "{of_stopped} of {of_fast} states");
}
