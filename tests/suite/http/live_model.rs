//! Does each client see states in their order, each once, and the last one?
//!
//! Clients of all kinds follow numbered states, while states are published, modules and mounts
//! are replaced, and clients disconnect. `LIVE_STEPS=100000` makes the run longer, and `LIVE_SEED`
//! chooses another one.

use std::net::SocketAddr;
use std::time::Duration;

use relayer_rest_host::LiveLimits;
use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::Mounts;
use relayer_rest_host::state::{Object, RelayerState, StatePublisher, Worker};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::server::{TestServer, any_dialect};
use relayer_rest_tests::wait::within;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::live::apply;

/// The workers that are the same in all states, so that a patch is short.
const WORKERS: u64 = 60;

/// Publishes the state with this number.
fn publish(publisher: &StatePublisher, number: u64) {
    let worker = |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
    let workers = (0..WORKERS).chain([WORKERS + number]).map(worker).collect();
    publisher.set_state(RelayerState { chains: vec!["a".into()], workers });
}

/// Returns the number of a state.
fn number(state: &Value) -> u64 {
    let workers = state["result"]["workers"]["Wallet"].as_array().unwrap();
    assert_eq!(workers.len() as u64, WORKERS + 1);
    workers.last().unwrap()["id"].as_u64().unwrap() - WORKERS
}

/// The client of a server, and the number of the last state after the end.
#[derive(Clone)]
struct Follower {
    address: SocketAddr,
    last: watch::Receiver<Option<u64>>,
    random: fastrand::Rng,
}

impl Follower {
    fn is_last(&self, seen: Option<u64>) -> bool {
        seen.is_some() && *self.last.borrow() == seen
    }

    async fn connect(&mut self) -> Client {
        if self.random.bool() {
            Client::http1(self.address).await
        } else {
            Client::http2(self.address).await
        }
    }

    /// Follows a stream until the last state, and connects again now and then.
    async fn stream(mut self, patches: bool, is_slow: bool) {
        let mut seen = None;
        let mut tag = None::<String>;
        // A patch after the connection was lost applies to the client's document.
        let mut document = None;
        while !self.is_last(seen) {
            let mut client = self.connect().await;
            let mut headers = Vec::new();
            headers.extend(tag.as_deref().map(|tag| ("last-event-id", tag)));
            headers.extend(patches.then_some(("prefer", "patch")));
            headers.extend(self.random.bool().then_some(("accept-encoding", "gzip")));
            let mut events = Events::open(&mut client, "/state", &headers).await;
            for _ in 0..self.random.u32(1..200) {
                if is_slow {
                    sleep(Duration::from_millis(self.random.u64(..100))).await;
                }
                let event = tokio::select! {
                    event = events.next() => event.expect("the server does not end"),
                    _ = self.last.changed() => break,
                };
                match &*event.name {
                    "change" => document = Some(event.json()),
                    "patch" => apply(document.as_mut().expect("the body is first"), event.json()),
                    "confirmed" => continue,
                    other => panic!("unexpected {other}: {}", event.data),
                }
                let next = number(document.as_ref().unwrap());
                assert!(seen.is_none_or(|seen| seen < next), "{next} after {seen:?}");
                (seen, tag) = (Some(next), event.id);
                if self.is_last(seen) {
                    return;
                }
            }
        }
    }

    /// Polls until the last state.
    async fn poll(mut self) {
        let mut seen = None;
        let mut tag = "\"none\"".to_owned();
        let mut client = self.connect().await;
        while !self.is_last(seen) {
            let headers = [("if-none-match", &*tag), ("prefer", "wait=1")];
            let response = client.request_with("GET", "/state", &headers).await;
            if response.status == 304 {
                continue;
            }
            assert_eq!(response.status, 200, "{}", response.text());
            let next = number(&serde_json::from_slice(&response.body).unwrap());
            assert!(seen.is_none_or(|seen| seen < next), "{next} after {seen:?}");
            seen = Some(next);
            response.header("etag").clone_into(&mut tag);
        }
    }
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_sees_states_in_their_order_and_the_last_one() {
    let live = LiveLimits {
        min_interval: Duration::from_millis(1),
        runs_per_second: 1_000_000,
        ..LiveLimits::default()
    };
    let server = TestServer::builder().live(live).start().await;
    // Another module with the same responses, so that no swap is seen.
    let other = component::noted(DEFAULT_MODULE, "another");
    assert!(server.swap_as(any_dialect(other)).await.is_accepted());
    publish(&server.publisher, 0);
    let mut random = fastrand::Rng::with_seed(variable("LIVE_SEED", 1));
    let (end, last) = watch::channel(None);
    let mut followers = JoinSet::new();
    for kind in 0..12 {
        let follower =
            Follower { address: server.address, last: last.clone(), random: random.fork() };
        match kind % 3 {
            0 => followers.spawn(follower.stream(false, kind == 0)),
            1 => followers.spawn(follower.stream(true, kind == 1)),
            _ => followers.spawn(follower.poll()),
        };
    }
    let mut state = 0;
    for _ in 0..variable("LIVE_STEPS", 3_000) {
        match random.u32(..100) {
            0..60 => {
                state += 1;
                publish(&server.publisher, state);
            }
            // Nothing that they read, and the same state again.
            60..70 => server.publisher.set_components(Vec::new()),
            70..75 => publish(&server.publisher, state),
            75..78 => drop(server.api().rollback().unwrap()),
            78..80 => server.registry.exchange(Mounts::new(server.api())),
            80..82 => {
                // Others come and go.
                let mut client = Client::http1(server.address).await;
                drop(Events::open(&mut client, "/state", &[]).await);
            }
            82..90 => sleep(Duration::from_micros(random.u64(..3_000))).await,
            _ => tokio::task::yield_now().await,
        }
    }
    state += 1;
    publish(&server.publisher, state);
    end.send(Some(state)).unwrap();
    while let Some(followed) = within("the last state", followers.join_next()).await {
        followed.unwrap();
    }
}
