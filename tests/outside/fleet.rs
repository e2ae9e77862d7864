//! Do all hosts of a fleet serve the state of its writer, while `nats-server` and writers fail?

use std::cell::Cell;
use std::iter;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use relayer_rest_host::fleet::{FleetAddress, FleetSettings, Publication, Subscription};
use relayer_rest_host::state::{
    MetricFamily, MetricKind, Object, RelayerState, Sample, StatePublisher, StateReader, Worker,
};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::namespace::Namespace;
use relayer_rest_tests::nats::Nats;
use relayer_rest_tests::program::{Program, Serving, Spawned};
use relayer_rest_tests::relayer::{Relayer, Script, state};
use relayer_rest_tests::wait::{DEADLINE, until, until_async, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::free_address;

/// The interval in which a writer confirms its state; far more than any test takes.
pub(super) const MAX_UNCONFIRMED: Duration = DEADLINE;

/// A writer in this process.
pub(super) struct Writer {
    publisher: StatePublisher,
    publication: JoinHandle<()>,
}

impl Writer {
    pub(super) async fn start(address: &FleetAddress) -> Self {
        let settings = FleetSettings::default();
        let publication = Publication::open(address, &settings, MAX_UNCONFIRMED).await.unwrap();
        let publisher = StatePublisher::new();
        Self { publication: tokio::spawn(publication.run(publisher.clone())), publisher }
    }

    /// Publishes the state with this number.
    pub(super) fn publish(&self, number: u64) {
        self.publisher.set_state(numbered(number));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.publication.abort();
    }
}

/// Returns the number of rounds in which NATS is killed and paused by turns: `FLEET_ROUNDS` tries
/// more.
fn rounds() -> u32 {
    std::env::var("FLEET_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap())
}

/// Returns a state with a number, in which half of the workers differ from the state before.
pub(super) fn numbered(number: u64) -> RelayerState {
    let worker = |place: u64| Worker {
        id: if place % 2 == number % 2 { number } else { number.saturating_sub(1) },
        object: Object::Wallet { chain_id: format!("chain-{place:03}").into() },
        data: None,
    };
    RelayerState { chains: vec!["ibc-0".into()], workers: (0..700).map(worker).collect() }
}

/// Returns the number of the state of a reader, which must be of one state.
pub(super) fn number(state: &StateReader) -> Option<u64> {
    let snapshot = state.snapshot();
    let state = snapshot.status().value().as_ref().ok()?;
    let number = state.workers.iter().map(|worker| worker.id).max()?;
    assert_eq!(*state, numbered(number), "a torn state");
    Some(number)
}

pub(super) async fn read(address: &FleetAddress) -> (StateReader, JoinHandle<()>) {
    let settings = FleetSettings::default();
    let subscription = Subscription::open(address, &settings, DEADLINE).await.unwrap();
    let publisher = StatePublisher::new();
    let reader = publisher.reader();
    (reader, tokio::spawn(subscription.run(publisher)))
}

/// Returns a command that publishes the state of a relayer.
fn publish(relayer: &Relayer, fleet: &FleetAddress) -> Spawned {
    let upstream = relayer.url();
    let fleet = fleet.to_string();
    Program::new(["publish", "--to", &fleet, "--upstream", &upstream, "--poll", "20ms"]).spawn()
}

async fn serve(fleet: &FleetAddress) -> Serving {
    let serving = Program::server().args(["--from", &fleet.to_string()]).start().await;
    serving.connect().await.get_until("/state", |response| response.status == 200).await;
    serving
}

pub(super) async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Response {
    Client::http1(address).await.request_with("GET", path, headers).await
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn all_hosts_have_the_same_responses() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let relayer = Relayer::start(Script::of_1_13());
    let upstream = relayer.url();
    let writer = Program::server()
        .args(["--publish-to", &fleet.to_string(), "--upstream", &upstream, "--poll", "20ms"])
        .start()
        .await;
    let readers = [serve(&fleet).await, serve(&fleet).await];
    let status = readers[0].control(&["status"]).await;
    assert!(status.stdout.contains("\nfleet: generation "), "{status:?}");
    let paths = ["/version", "/chains", "/chain/ibc-0", "/chain/ibc-1", "/state"];
    for path in paths {
        let expected =
            writer.connect().await.get_until(path, |response| response.status == 200).await;
        for reader in &readers {
            let same = |response: &Response| response.body == expected.body;
            let response = reader.connect().await.get_until(path, same).await;
            assert_eq!(response.header("etag"), expected.header("etag"), "{path}");
            assert!(response.header("x-relayer-source").starts_with("fleet;location=\"nats://"));
        }
    }
    // Each reader has the generation of any response before it answers.
    for clients in 3..20 {
        relayer.change(|script| script.state = state(&["ibc-0", "ibc-1"], clients, false));
        let known = get(readers[0].address(), "/state", &[]).await;
        let changed = |response: &Response| response.body != known.body;
        let newest = writer.connect().await.get_until("/state", changed).await;
        let generation = newest.header("x-relayer-generation");
        for reader in &readers {
            let headers = [("x-relayer-min-generation", generation)];
            let response = get(reader.address(), "/state", &headers).await;
            assert_eq!((response.status.as_u16(), response.text()), (200, newest.text()));
            assert_eq!(response.header("etag"), newest.header("etag"));
        }
    }
    let future = [("x-relayer-min-generation", "99999999999-1")];
    let behind = get(readers[0].address(), "/state", &future).await;
    assert_eq!((behind.status.as_u16(), &*behind.error_name()), (503, "Behind"));
    assert_eq!(behind.header("retry-after"), "1");

    // A client goes on at another host with the tag that it has.
    let known = get(readers[0].address(), "/state", &[]).await;
    let etag = known.header("etag").to_owned();
    let mut client = readers[1].connect().await;
    let mut events = Events::open(&mut client, "/state", &[("last-event-id", &etag)]).await;
    let mut waiting = readers[1].connect().await;
    let waiting = tokio::spawn(async move {
        let headers = [("if-none-match", &*etag), ("prefer", "wait=300")];
        waiting.request_with("GET", "/state", &headers).await
    });
    let control = readers[1].control_client();
    let waiters =
        async || control.status().await.unwrap().connections.map_or(0, |all| all.live.waiters);
    until_async("both clients wait", async || waiters().await == 2).await;
    relayer.change(|script| script.state = state(&["ibc-0", "ibc-1"], 30, false));
    let response = within("the change", waiting).await.unwrap();
    assert!(response.status == 200 && response.body != known.body, "{response:?}");
    let event = loop {
        let event = events.next().await.unwrap();
        if event.name == "change" {
            break event;
        }
    };
    assert_eq!(event.id.as_deref(), Some(response.header("etag")));
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_state_that_no_writer_confirms_expires() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let writer = Writer::start(&fleet).await;
    writer.publish(1);
    let args = ["--from", &fleet.to_string(), "--max-stale", "5s"];
    let reader = Program::server().args(args).start().await;
    let mut client = reader.connect().await;
    client.get_until("/state", |response| response.status == 200).await;
    drop(writer);
    let expired = client.get_until("/state", |response| response.status == 503).await;
    assert!(expired.text().contains("the fleet has not confirmed the state for 5s"), "{expired:?}");
    let writer = Writer::start(&fleet).await;
    writer.publish(2);
    client.get_until("/state", |response| response.status == 200).await;
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn messages_that_cannot_be_read_change_nothing() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let writer = Writer::start(&fleet).await;
    writer.publish(1);
    let mut reader = serve(&fleet).await;
    let before = get(reader.address(), "/state", &[]).await;
    let mut other = TcpStream::connect(nats.address()).await.unwrap();
    other.write_all(b"CONNECT {\"verbose\":false}\r\n").await.unwrap();
    for (subject, problem) in [
        ("new.part.state", "the part state "),
        ("new.commit", "the commit: "),
        ("new.other", "relayer.fleet.new.other is unknown"),
        ("alive", "the sign of life of the writer: "),
    ] {
        let message = format!("PUB relayer.fleet.{subject} 4\r\njunk\r\n");
        other.write_all(message.as_bytes()).await.unwrap();
        reader.logged(problem).await;
        assert_eq!(get(reader.address(), "/state", &[]).await.body, before.body, "{subject}");
    }
    writer.publish(2);
    let is_next = |response: &Response| response.status == 200 && response.body != before.body;
    reader.connect().await.get_until("/state", is_next).await;
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_standby_takes_over_and_never_publishes_an_older_state() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let relayer = Relayer::start(Script::of_1_13());
    let workers = |response: &Response| {
        let state: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        state["result"]["workers"]["Client"].as_array().map_or(0, Vec::len)
    };
    let mut first = publish(&relayer, &fleet);
    let reader = serve(&fleet).await;
    let mut client = reader.connect().await;
    let mut generation = String::new();
    for clients in 3..6 {
        // The standby has read the state before, which must not come back.
        let standby = publish(&relayer, &fleet);
        until("the standby has polled", || relayer.seen().paths["/state"] > 2).await;
        first.signal(rustix::process::Signal::KILL);
        first.ended().await;
        relayer.change(|script| script.state = state(&["ibc-0", "ibc-1"], clients, false));
        let before = Cell::new(0);
        client
            .get_until("/state", |response| {
                let count = workers(response);
                let before = before.replace(count);
                assert!(count >= before, "{count} after {before}");
                response.status == 200 && count == 2 * clients
            })
            .await;
        let next = client.get("/state").await.header("x-relayer-generation").to_owned();
        assert_ne!(next.split_once('-').unwrap().0, generation, "another epoch");
        generation = next.split_once('-').unwrap().0.to_owned();
        first = standby;
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_paused_writer_publishes_nothing_when_it_goes_on() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let relayer = Relayer::start(Script::of_1_13());
    let paused = publish(&relayer, &fleet);
    let reader = serve(&fleet).await;
    let mut client = reader.connect().await;
    let old = client.get("/state").await;
    paused.signal(rustix::process::Signal::STOP);
    let _standby = publish(&relayer, &fleet);
    relayer.change(|script| script.state = state(&["ibc-0"], 9, false));
    let new = client.get_until("/state", |response| response.body != old.body).await;
    paused.signal(rustix::process::Signal::CONT);
    let epoch = |response: &Response| {
        response.header("x-relayer-generation").split_once('-').unwrap().0.to_owned()
    };
    for clients in 10..30 {
        relayer.change(|script| script.state = state(&["ibc-0"], clients, false));
        let next =
            |response: &Response| response.text().matches("07-tendermint-").count() == clients;
        let response = client.get_until("/state", next).await;
        assert_eq!(epoch(&response), epoch(&new), "the paused writer stands by");
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_publication_that_ends_leaves_no_task() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let writer = Writer::start(&fleet).await;
    writer.publish(1);
    let (reader, reading) = read(&fleet).await;
    until("it is the writer", || number(&reader) == Some(1)).await;
    reading.abort();
    drop(writer);
    until("its tasks have ended", || tasks() == before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nats-server"]
async fn readers_serve_while_nats_is_killed_and_go_on_when_it_is_back() {
    let mut nats = Nats::start().await;
    let fleet = nats.fleet("");
    let writer = Writer::start(&fleet).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(read(&fleet).await.0);
    }
    let mut last = vec![None; readers.len()];
    let mut check = |readers: &[StateReader]| {
        for (reader, last) in readers.iter().zip(&mut last) {
            let number = number(reader);
            assert!(number >= *last, "{number:?} after {last:?}");
            *last = number;
        }
    };
    let mut state = 0;
    for round in 0..rounds() {
        for _ in 0..5 {
            state += 1;
            writer.publish(state);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..40))).await;
            check(&readers);
        }
        if round % 2 == 0 {
            nats.kill();
        } else {
            nats.pause(true);
        }
        state += 1;
        writer.publish(state);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..500))).await;
        check(&readers);
        assert!(readers.iter().all(|reader| number(reader).is_some() || round == 0));
        if round % 2 == 0 {
            nats.run().await;
        } else {
            nats.pause(false);
        }
        let is_newest = || {
            check(&readers);
            readers.iter().all(|reader| number(reader) == Some(state))
        };
        until("all readers have the newest state", is_newest).await;
    }
}

/// Returns the response to `GET /state` of a server that listens on a Unix socket.
async fn state_at(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = b"GET /state HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// Returns the number of the state in a response, which must be of one state, or `None` if it is
/// not known.
fn number_in(response: &str) -> Option<u64> {
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let workers = body["result"]["workers"]["Wallet"].as_array()?;
    let ids: Vec<_> = workers.iter().map(|worker| worker["id"].as_u64().unwrap()).collect();
    let number = *ids.iter().max().unwrap();
    let expected: Vec<_> = numbered(number).workers.iter().map(|worker| worker.id).collect();
    assert_eq!(ids, expected, "a torn state");
    Some(number)
}

#[tokio::test]
#[ignore = "needs nats-server, ip, and the rights of root"]
async fn a_reader_behind_a_partition_is_never_torn_older_or_too_young() {
    let namespace = Namespace::new();
    let nats = Nats::listening(namespace.outside(), "").await;
    let fleet = nats.fleet("");
    let writer = Writer::start(&fleet).await;
    let folder = Folder::new();
    let socket = folder.join("api.sock");
    let listen = format!("unix:{}", socket.display());
    let reader = Program::new(["--listen", &listen, "--from", &fleet.to_string()]);
    let _reader = reader.launched_by(&namespace.launcher()).start().await;
    let (mut state, mut last) = (1, None);
    writer.publish(state);
    for round in 0..20 {
        let newest = state;
        until_async("the reader has the newest state", async || {
            let number = number_in(&state_at(&socket).await);
            assert!(number >= last, "{number:?} after {last:?}");
            last = number;
            number == Some(newest)
        })
        .await;
        namespace.set_cut(true);
        let cut = Instant::now();
        // Longer than the time after which a sign of life is missing, from time to time.
        for _ in 0..if round % 5 == 0 { 12 } else { 3 } {
            state += 1;
            writer.publish(state);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..500))).await;
            let elapsed = cut.elapsed();
            let response = state_at(&socket).await;
            assert_eq!(number_in(&response), last);
            let age = response.lines().find_map(|line| line.strip_prefix("age: "));
            if let Some(age) = age {
                let age: u64 = age.parse().unwrap();
                assert!(Duration::from_secs(age + 1) >= elapsed, "{age} s after {elapsed:?}");
            }
        }
        namespace.set_cut(false);
    }
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_state_of_files_is_published() {
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let folder = Folder::new();
    let config = folder.write("config.toml", include_str!("../fixtures/hermes-0.7.toml"));
    let workers = |clients| state(&["ibc-0", "ibc-1"], clients, true).to_string();
    let file = folder.write("state.json", workers(1));
    let to = fleet.to_string();
    let publish = ["publish", "--to", &to, "--relayer-config", &config, "--state", &file];
    let _writer = Program::new(publish).spawn();
    let reader = serve(&fleet).await;
    let mut client = reader.connect().await;
    let chain = client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    assert!(chain.text().contains("http://127.0.0.1:26657"), "{chain:?}");
    let clients = |response: &Response| response.text().matches("07-tendermint-").count();
    client.get_until("/state", |response| clients(response) == 2).await;
    folder.replace("state.json", workers(2));
    client.get_until("/state", |response| clients(response) == 4).await;
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn a_value_larger_than_a_message_is_read_whole() {
    const MAX_MESSAGE: usize = 1 << 20;
    let nats = Nats::start().await;
    let fleet = nats.fleet("");
    let writer = Writer::start(&fleet).await;
    // Texts at random cannot be compressed to one message.
    let mut random = fastrand::Rng::with_seed(1);
    let name: Arc<str> = "wallet_balance".into();
    let mut sample = |_| {
        let account: String = iter::repeat_with(|| random.alphanumeric()).take(2_000).collect();
        Sample {
            name: Arc::clone(&name),
            labels: vec![("account".into(), account.into())],
            value: 1.0,
            since: SystemTime::UNIX_EPOCH,
        }
    };
    let samples: Vec<_> = (0..MAX_MESSAGE / 1_000).map(&mut sample).collect();
    let family = MetricFamily {
        name: Arc::clone(&name),
        kind: MetricKind::Gauge,
        help: "The balance".to_owned(),
        samples,
    };
    writer.publisher.set_telemetry(vec![family], SystemTime::now());
    writer.publish(1);
    let (reader, _reading) = read(&fleet).await;
    let value = |state: &StateReader| {
        let snapshot = state.snapshot();
        snapshot.telemetry().family(&name).map(|family| family.value().clone())
    };
    let published = value(&writer.publisher.reader());
    assert!(published.is_some());
    until("the reader has it", || value(&reader) == published).await;

    // It is stale at all hosts if it is at the writer.
    assert_eq!(reader.snapshot().telemetry().stale(), None);
    let since = Instant::now();
    writer.publisher.set_telemetry_stale(Some(since));
    until("it is stale", || reader.snapshot().telemetry().stale().is_some()).await;
    assert!(reader.snapshot().telemetry().stale().unwrap() <= since, "younger than it is");
    assert!(reader.snapshot().status().value().is_ok());
    writer.publisher.set_telemetry_stale(None);
    until("it is not stale any more", || reader.snapshot().telemetry().stale().is_none()).await;
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn the_age_is_never_below_the_true_one() {
    let mut nats = Nats::start().await;
    let fleet = nats.fleet("");
    let relayer = Relayer::start(Script::of_1_13());
    let _writer = publish(&relayer, &fleet);
    let reader = serve(&fleet).await;
    let mut client = reader.connect().await;
    client.get_until("/state", |response| !response.headers.contains_key("age")).await;
    nats.kill();
    let killed = Instant::now();
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    for _ in 0..20 {
        let asked = killed.elapsed();
        let response = client.get("/state").await;
        let age: u64 = response.header("age").parse().unwrap();
        // It was confirmed when NATS was killed at the latest; the header has whole seconds.
        assert!(Duration::from_secs(age + 1) >= asked, "{age} s after {asked:?}");
        assert!(response.header("warning").starts_with("110"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    nats.run().await;
    client.get_until("/state", |response| !response.headers.contains_key("age")).await;
}

#[tokio::test]
#[ignore = "needs nats-server"]
async fn settings_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let missing = folder.as_path().join("missing.creds").display().to_string();
    let config = folder.write("a.toml", format!("[fleet]\ncredentials = {missing:?}\n"));
    for (args, message) in [
        (&["publish"][..], "publish: no fleet is given"),
        (&["publish", "--to", "nats://h"], "the name of the fleet"),
        (&["publish", "--to", "nats://127.0.0.1:1/f", "--config", &config], "fleet.credentials: "),
        (&["--from", "nats://h/f", "--upstream", "http://h"], "two sources of the state"),
        (&["--from", "nats://h/f", "--publish-to", "nats://h/g"], "two sources of the state"),
    ] {
        let ended = Program::new(args).run().await;
        assert_eq!(ended.status, Some(2), "{args:?}");
        assert!(ended.stderr.contains(message), "{args:?}: {}", ended.stderr);
    }
}

/// The page that takes a user from one server to three, in two regions.
const PAGE: &str = include_str!("../../docs/fleet.md");

#[tokio::test]
#[ignore = "needs nats-server and curl"]
async fn the_page_takes_a_user_from_one_server_to_two_regions() {
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let blocks: Vec<_> = blocks.map(|(block, _)| block).collect();
    assert_eq!(blocks.len(), 5, "NATS, the writer, the two readers and the generations");
    let relayer = Relayer::start(Script::of_1_13());
    let [nats, leaves, region, first, second] = [(); 5].map(|()| free_address());
    let mut script = blocks.join("\n");
    for (text, replacement) in [
        ("127.0.0.1:4222", nats.to_string()),
        ("127.0.0.1:7422", leaves.to_string()),
        ("127.0.0.1:4223", region.to_string()),
        ("http://127.0.0.1:3001", relayer.url()),
        ("127.0.0.1:3002", first.to_string()),
        ("localhost:3002", first.to_string()),
        ("127.0.0.1:3003", second.to_string()),
        ("localhost:3003", second.to_string()),
        // A reader waits for the lines that the programs in the background print.
        ("curl ", "curl --retry 300 --retry-delay 1 --retry-connrefused ".to_owned()),
    ] {
        assert!(script.contains(text), "{text}");
        script = script.replace(text, &replacement);
    }
    let folder = Folder::new();
    let command = folder.as_path().join("relayer-rest");
    std::os::unix::fs::symlink(Program::path(), command).unwrap();
    let path = format!("{}:{}", folder.as_path().display(), std::env::var("PATH").unwrap());
    let script = format!("trap 'kill $(jobs -p)' EXIT\n{script}");
    let output = tokio::process::Command::new("bash")
        .args(["-ec", &script])
        .current_dir(folder.as_path())
        .env("PATH", path)
        .env("RELAYER_REST_CODE_CACHE", folder.as_path().join("cache"))
        .env("XDG_RUNTIME_DIR", folder.as_path())
        .output();
    let output = within("the commands of the page", output).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    for server in [nats, region] {
        let source = format!("x-relayer-source: fleet;location=\"nats://{server}/relayer-1\"");
        assert!(printed.contains(&source), "{printed}\n{errors}");
    }
    let last = printed.rfind("HTTP/1.1 200 OK").expect("the last response is one");
    assert!(printed[last..].contains("x-relayer-generation: "), "{printed}");
    assert!(printed[last..].contains("\"status\":\"success\""), "{printed}");
}
