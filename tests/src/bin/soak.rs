//! A soak test, for any length of time: good and hostile clients, misbehaving modules,
//! swaps, a changing state and a faulty relayer, all at once.
//!
//! ```console
//! cargo run --release -p relayer-rest-tests --bin soak -- --minutes 10
//! ```
//!
//! The server is a separate process. At the end, no response may have been wrong, and the
//! server's memory (within a margin), files and threads must not have grown since the
//! warm-up. Prints the counts; the exit code is 1 if a check fails. `--minutes 0` tries only
//! whether the server and its extensions start and reload with the settings of the test.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::{ControlClient, ControlClientError};
use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_host::registry::{Candidate, MountState, MountStatus, Source, SwapOutcome};
use relayer_rest_tests::cargo::{FAILING_GUEST, WASI_GUEST};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component::{self, hostile};
use relayer_rest_tests::measure;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::relayer::{Fault, Relayer, Script, state};
use relayer_rest_tests::wait::within;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The maximum time of a response, on a busy machine.
const LATE: Duration = Duration::from_secs(5);

/// The time that the load runs before it is counted.
const WARM_UP: Duration = Duration::from_mins(1);

/// The time until the idle server has returned memory: after attempts without an effect, it waits
/// for 160 s before the next.
const REST: Duration = Duration::from_mins(3);

/// The time until threads for blocking work have ended, each after ten seconds without any, on a
/// busy machine.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The growth of the server's memory that is allowed: the greater of this percentage and
/// this number of bytes.
const GROWTH: u64 = 5;
const SLACK: u64 = 8 << 20;

/// The extension that a reload replaces.
const RELOADED: &str = "wasi";

/// The status of a mount that is disabled, or has too many requests.
const UNAVAILABLE: u16 = 503;

/// The extension that the checks before it serves disable.
const DISABLED: &str = "start";

/// The event of a new module that fails.
const FAILED: &str = "new modules that failed";

/// The event of its rollback.
const ROLLED_BACK: &str = "new modules that failed and were rolled back";

/// A mounted extension.
struct Extension {
    name: &'static str,
    module: Vec<u8>,
    /// The rest of the targets of requests, which take turns; `#` is their number.
    behaviour: &'static [&'static str],
    /// The statuses of its responses, each of which must occur, besides [`UNAVAILABLE`].
    statuses: &'static [u16],
}

impl Extension {
    /// Returns the names of the events that must occur.
    fn events(&self) -> impl Iterator<Item = String> {
        self.statuses.iter().map(|status| format!("{}: {status}", self.name))
    }
}

fn extensions() -> [Extension; 4] {
    let failing = |name| Extension {
        name,
        module: FAILING_GUEST.to_vec(),
        behaviour: &[
            "/#?then=panic",
            "/#?then=endless",
            "/#?then=invalid",
            "/#?then=index",
            "/#?then=divide",
            "/#?read=state",
        ],
        statuses: &[200, 500, 502, 504],
    };
    [
        failing("failing"),
        failing("other"),
        Extension {
            name: RELOADED,
            module: WASI_GUEST.to_vec(),
            behaviour: &[
                "/hoard/#",
                "/exit/#",
                "/flood/#",
                "/print/#",
                "/time/#",
                "/files/#",
                "/sockets/#",
                "/wait/#",
            ],
            statuses: &[200, 500, 504],
        },
        Extension {
            name: DISABLED,
            module: hostile::trap_in_start(),
            behaviour: &["/#"],
            statuses: &[],
        },
    ]
}

/// The counts of events, and the failures.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    /// The number of each event.
    counts: BTreeMap<String, u64>,
    /// The first failures.
    wrong: Vec<String>,
}

impl Counts {
    fn add(&self, what: impl Into<String>) {
        *self.0.lock().unwrap().counts.entry(what.into()).or_default() += 1;
    }

    fn wrong(&self, what: &str) {
        let mut counted = self.0.lock().unwrap();
        if counted.wrong.len() < 20 {
            let start: String = what.chars().take(400).collect();
            eprintln!("WRONG: {start}");
            counted.wrong.push(start);
        }
    }

    /// Adds the failures that another count found.
    fn add_wrong(&self, other: &Self) {
        self.0.lock().unwrap().wrong.append(&mut other.0.lock().unwrap().wrong);
    }

    /// Returns the check that each expected event occurred, and its finding.
    fn are_complete(&self) -> (bool, String) {
        let counts = &self.0.lock().unwrap().counts;
        let expected = extensions();
        let expected = expected.iter().flat_map(Extension::events);
        // A short run has no such module.
        let rolled_back = counts.contains_key(FAILED).then(|| ROLLED_BACK.to_owned());
        let missing: Vec<_> =
            expected.chain(rolled_back).filter(|event| !counts.contains_key(event)).collect();
        (missing.is_empty(), format!("events that did not occur: {}", missing.join(", ")))
    }
}

#[derive(Clone)]
struct Soak {
    address: SocketAddr,
    control: ControlClient,
    counts: Counts,
    labels: Arc<Vec<String>>,
    settings: Arc<Path>,
    end: Instant,
}

fn main() -> ExitCode {
    // The server is started from this executable, too.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first != "--minutes") {
        return relayer_rest_cli::run();
    }
    let minutes = args.get(1).and_then(|minutes| minutes.parse::<f64>().ok()).unwrap_or(10.0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let is_clean = runtime.block_on(soak(Duration::from_secs_f64(minutes * 60.0)));
    runtime.shutdown_background();
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn soak(time: Duration) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let relayer = Relayer::start(Script::of_0_7());
    let file = folder.path().join("relayer-rest.toml");
    for Extension { name, module, .. } in extensions() {
        fs::write(folder.path().join(format!("{name}.wasm")), module).unwrap();
    }
    fs::write(&file, settings(8)).unwrap();
    let config = file.to_str().unwrap().to_owned();
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &relayer.url(),
        "--poll",
        "100ms",
        "--max-stale",
        "1min",
        "--config",
        &config,
        "--code-cache",
        folder.path().join("cache").to_str().unwrap(),
    ]
    .map(str::to_owned);
    let program = std::env::current_exe().unwrap();
    let mut server = Program::at(program, &args).start().await;
    server.close_log();
    let modules: Vec<Vec<u8>> = ["", "a", "b"]
        .iter()
        .map(|note| noted(note))
        .chain([component::that_traps_at_a_header(1)])
        .collect();
    let labels = modules.iter().map(|module| format!("api@{}", Digest::new(module).short()));
    let mut soak = Soak {
        address: server.address(),
        control: server.control_client(),
        counts: Counts::default(),
        labels: Arc::new(labels.collect()),
        settings: file.into(),
        end: Instant::now() + WARM_UP.min(time),
    };
    println!("{}", machine());
    // The warm-up: memory that is allocated now is needed.
    run(&soak, &relayer, &modules).await;
    let mut checks = vec![soak.extensions_are_as_expected().await];
    if !time.is_zero() {
        let before = usage_at_rest(server.id(), &relayer).await;
        let warm_up = std::mem::take(&mut soak.counts);
        soak.end = Instant::now() + time;
        run(&soak, &relayer, &modules).await;
        checks.extend(growth(&before, &usage_at_rest(server.id(), &relayer).await));
        checks.push(soak.counts.are_complete());
        soak.counts.add_wrong(&warm_up);
    }
    let Counted { counts, wrong } = std::mem::take(&mut *soak.counts.0.lock().unwrap());
    println!("\n| event | count |\n|---|---|");
    for (what, count) in &counts {
        println!("| {what} | {count} |");
    }
    checks.push((wrong.is_empty(), format!("wrong responses: {}", wrong.len())));
    println!();
    for (is_right, check) in &checks {
        println!("{} {check}", if *is_right { "ok   " } else { "WRONG" });
    }
    checks.iter().all(|(is_right, _)| *is_right)
}

fn is_loading(mount: &MountStatus) -> bool {
    matches!(mount.state, MountState::Loading)
}

/// Returns the checks of the resources of the server after the load, and their findings.
fn growth(before: &Held, after: &Held) -> [(bool, String); 4] {
    let most = before.memory + (before.memory * GROWTH / 100).max(SLACK);
    // Each mount starts its threads for long runs on the first of them, up to the number
    // of cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most_long_runs = cores * (1 + extensions().len());
    let grown = |what, before: &[String], after: &[String]| {
        let more = match more(before, after) {
            more if more.is_empty() => String::new(),
            more => format!(" ({} more)", more.join(", ")),
        };
        let check = format!("{what}: {} before, {} after{more}", before.len(), after.len());
        (after.len() <= before.len(), check)
    };
    [
        (
            after.long_runs <= most_long_runs,
            format!("threads for long runs: {}, at most {most_long_runs}", after.long_runs),
        ),
        (
            after.memory <= most,
            format!("memory: {} before, {} after", mib(before.memory), mib(after.memory)),
        ),
        grown("files", &before.files, &after.files),
        grown("threads", &before.threads, &after.threads),
    ]
}

fn noted(note: &str) -> Vec<u8> {
    if note.is_empty() { DEFAULT_MODULE.to_vec() } else { component::noted(DEFAULT_MODULE, note) }
}

/// Returns the settings, with this queue length for one extension. The response caches
/// are so small that they are full before the count begins.
fn settings(queue: u32) -> String {
    const GRANTS: &str = "'chains', 'commands', 'log', 'mount', 'query', 'request', 'snapshot', 'state', 'telemetry', 'version'";
    let mut text =
        "[module.limits]\ntime = '2s'\nresponse-cache = '2MiB'\n[http]\nidle = '2s'\nstalled = '3s'\nconnections = 600\n"
            .to_owned();
    for Extension { name, .. } in extensions() {
        let wasi = name == RELOADED;
        let queue = if name == RELOADED { queue } else { 8 };
        writeln!(
            text,
            "[[extension]]\nname = '{name}'\nmodule = '{name}.wasm'\ngrants = [{GRANTS}]\n\
             wasi = {wasi}\n[extension.failure-policy]\nfailures = 1000\nwindow = '1ms'\n\
             [extension.limits]\ntime = '100ms'\nmemory = '4MiB'\nbody = '1MiB'\n\
             concurrency = 8\nqueue = {queue}\nresponse-cache = '1MiB'"
        )
        .unwrap();
    }
    text
}

/// Runs all clients until the end.
async fn run(soak: &Soak, relayer: &Relayer, modules: &[Vec<u8>]) {
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(soak.clone().good());
        tasks.spawn(soak.clone().reconnecting());
    }
    for extension in extensions() {
        let extension = Arc::new(extension);
        for _ in 0..2 {
            tasks.spawn(soak.clone().extension(Arc::clone(&extension)));
        }
    }
    for _ in 0..3 {
        tasks.spawn(soak.clone().half_requests());
        tasks.spawn(soak.clone().resets());
    }
    tasks.spawn(soak.clone().floods());
    tasks.spawn(soak.clone().idle());
    tasks.spawn(soak.clone().oversized());
    tasks.spawn(soak.clone().swaps(modules.to_vec()));
    tasks.spawn(soak.clone().reloads());
    let changes = soak.clone().changes(relayer);
    let ((), ()) = tokio::join!(changes, async {
        while let Some(ended) = tasks.join_next().await {
            // A good client panics if it loses its connection.
            if let Err(error) = ended {
                soak.counts.wrong(&format!("a client did not come to its end: {error}"));
            }
        }
    });
}

impl Soak {
    /// Returns the check that only one extension is disabled, and its finding.
    async fn extensions_are_as_expected(&self) -> (bool, String) {
        let loaded = async {
            loop {
                let mounts = self.control.status().await?.mounts;
                if !mounts.iter().any(is_loading) {
                    return Ok::<_, ControlClientError>(mounts);
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let mounts = match within("the extensions are loaded", loaded).await {
            Ok(mounts) => mounts,
            Err(error) => return (false, format!("status: {error}")),
        };
        let disabled: Vec<_> = mounts
            .iter()
            .filter(|mount| !matches!(mount.state, MountState::Active { .. }))
            .map(|mount| mount.name.as_str())
            .collect();
        let is_right = mounts.len() == 1 + extensions().len() && disabled == [DISABLED];
        (is_right, format!("extensions that are not active: {}", disabled.join(", ")))
    }

    /// Returns the number of rollbacks of the API's mount.
    async fn rollbacks(&self) -> u64 {
        match self.control.status().await {
            Ok(status) => status.mounts[0].deployments.rollbacks,
            Err(error) => {
                self.counts.wrong(&format!("status: {error}"));
                0
            }
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Connects a client. A refused connection is a failure.
    async fn client(&self) -> Client {
        Client::http1(self.address).await
    }

    fn check(&self, path: &str, response: &Response, took: Duration) {
        self.counts.add(format!("good requests with status {}", response.status.as_u16()));
        let wrong = |what: &str| self.counts.wrong(&format!("{path}: {what}: {response:?}"));
        if took > LATE {
            wrong(&format!("it took {took:?}"));
        }
        let label = response.header("x-relayer-module");
        if !self.labels.iter().any(|known| known == label) {
            wrong("the module is nobody");
        }
        // A module that responds with 204 to everything may be active for a moment.
        if response.status == 204 && label == self.labels[3] {
            return;
        }
        let Ok(body) = serde_json::from_slice::<Value>(&response.body) else {
            return wrong("it is not JSON");
        };
        let is_right = match path {
            "/version" => response.status == 200 && body[0]["name"] == "ibc-relayer",
            "/chains" => {
                response.status == 200 && body["result"] == serde_json::json!(["ibc-0", "ibc-1"])
            }
            "/chain/ibc-0" => response.status == 200 && body["result"]["id"] == "ibc-0",
            "/chain/none" => {
                response.status == 404 && body["result"]["name"] == "ChainConfigNotFound"
            }
            "/state" => {
                let workers = body["result"]["workers"]["Client"].as_array();
                let count = workers.map_or(0, Vec::len);
                response.status == 200
                    && body["result"]["chains"] == serde_json::json!(["ibc-0", "ibc-1"])
                    && (2..=100).contains(&count)
            }
            _ => unreachable!("no other path is requested"),
        };
        if !is_right {
            wrong("it is another response than this should have");
        }
    }

    /// Requests all endpoints, on kept connections.
    async fn good(self) {
        const PATHS: [&str; 5] = ["/version", "/chains", "/chain/ibc-0", "/chain/none", "/state"];
        let mut client = self.client().await;
        for number in 0.. {
            if self.is_over() {
                return;
            }
            // The maximum number of requests on a connection, and a short pause.
            if number % 1000 == 999 {
                client = self.client().await;
            }
            let path = PATHS[number % PATHS.len()];
            let start = Instant::now();
            let response = client.get(path).await;
            self.check(path, &response, start.elapsed());
            sleep(Duration::from_micros(500)).await;
        }
    }

    async fn reconnecting(self) {
        while !self.is_over() {
            let start = Instant::now();
            let response = self.client().await.get("/state").await;
            self.check("/state", &response, start.elapsed());
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn extension(self, extension: Arc<Extension>) {
        let Extension { name, behaviour, statuses, .. } = *extension;
        let mut client = self.client().await;
        for number in 0_usize.. {
            if self.is_over() {
                return;
            }
            let path = behaviour[number % behaviour.len()].replace('#', &number.to_string());
            let path = format!("/ext/{name}{path}");
            let start = Instant::now();
            let status = client.get(&path).await.status.as_u16();
            self.counts.add(format!("{name}: {status}"));
            let is_known = status == UNAVAILABLE || statuses.contains(&status);
            if !is_known || start.elapsed() > LATE {
                self.counts.wrong(&format!("{path}: {status} after {:?}", start.elapsed()));
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn half_requests(self) {
        while !self.is_over() {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(b"GET /state HTTP/1.1\r\nhost").await.ok();
            let mut byte = [0];
            match timeout(Duration::from_secs(20), stream.read(&mut byte)).await {
                Err(_) => self.counts.wrong("half a request is waited for"),
                Ok(_) => self.counts.add("half requests that were closed"),
            }
        }
    }

    async fn resets(self) {
        for number in 0.. {
            if self.is_over() {
                return;
            }
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let path = ["/state?", "/ext/failing/reset?then=endless"][number % 2];
            let request = format!("GET {path}&{number} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok();
            sleep(Duration::from_millis(number as u64 % 7)).await;
            stream.set_zero_linger().ok();
            self.counts.add("connections that were reset");
        }
    }

    async fn floods(self) {
        let requests = "GET /state HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2000);
        while !self.is_over() {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let written = stream.write_all(requests.as_bytes());
            drop(timeout(Duration::from_secs(2), written).await);
            let mut bytes = vec![0; 1 << 20];
            let end = async { while matches!(stream.read(&mut bytes).await, Ok(1..)) {} };
            match timeout(Duration::from_mins(1), end).await {
                Err(_) => self.counts.wrong("a flood is never closed"),
                Ok(()) => self.counts.add("pipelined floods"),
            }
        }
    }

    async fn idle(self) {
        let mut idle = Vec::new();
        while !self.is_over() {
            for _ in 0..100 {
                if let Ok(stream) = TcpStream::connect(self.address).await {
                    idle.push(stream);
                    self.counts.add("idle connections");
                }
            }
            sleep(Duration::from_millis(500)).await;
            if idle.len() > 500 {
                idle.clear();
            }
        }
    }

    async fn oversized(self) {
        let long = "a".repeat(20_000);
        while !self.is_over() {
            for (request, status) in [
                (format!("GET /{long} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"), "414"),
                (format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(101)), "431"),
                (
                    "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n".to_owned(),
                    "413",
                ),
                ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), "400"),
            ] {
                let mut stream = TcpStream::connect(self.address).await.unwrap();
                stream.write_all(request.as_bytes()).await.ok();
                let mut response = vec![0; 1024];
                let read = timeout(Duration::from_secs(20), stream.read(&mut response)).await;
                let response =
                    String::from_utf8_lossy(&response[..read.map_or(0, |read| read.unwrap_or(0))])
                        .into_owned();
                self.counts.add(format!("requests that are refused with {status}"));
                if !response.starts_with(&format!("HTTP/1.1 {status} ")) {
                    self.counts.wrong(&format!("not {status}, but {response}"));
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Swaps modules, valid and faulty ones.
    async fn swaps(self, modules: Vec<Vec<u8>>) {
        let candidate = |bytes: &[u8], dialect| Candidate {
            dialect: Some(dialect),
            force: true,
            ..Candidate::new(Source::Bytes {
                name: "soak".to_owned(),
                bytes: bytes.to_vec().into(),
            })
        };
        for number in 0.. {
            if self.is_over() {
                break;
            }
            let (module, dialect) = match number % 6 {
                4 => (hostile::spin_in_start(), Dialect::Any),
                5 => (modules[3].clone(), Dialect::Any),
                number => (modules[number % 3].clone(), Dialect::V0_7),
            };
            match self.control.swap("/", candidate(&module, dialect)).await {
                Err(error) => self.counts.wrong(&format!("swap: {error}")),
                Ok(report) => {
                    let outcome = match report.outcome {
                        SwapOutcome::Rejected { reason, .. } => format!("refused: {reason:?}"),
                        outcome => format!("{outcome:?}"),
                    };
                    self.counts.add(format!("swaps: {outcome}"));
                }
            }
            if number % 6 == 5 {
                // The module traps, and is rolled back. The others do not read the header, so that the
                // checks of the next module repeat the request without it.
                let before = self.rollbacks().await;
                self.client().await.request_with("GET", "/chains", &[("x-mode", "trap")]).await;
                self.counts.add(FAILED);
                if self.rollbacks().await > before {
                    self.counts.add(ROLLED_BACK);
                }
                // With or without a rollback before.
                self.control.swap("/", candidate(&modules[0], Dialect::V0_7)).await.ok();
            }
            sleep(Duration::from_millis(200)).await;
        }
        // The active module and the previous one must be the same at both ends: a module
        // has a memory image, which is an open file.
        for last in [&modules[1], &modules[2], &modules[0]] {
            self.control.swap("/", candidate(last, Dialect::V0_7)).await.ok();
        }
    }

    /// Reloads the settings: unchanged, with one extension changed, and invalid.
    async fn reloads(self) {
        for number in 0_u32.. {
            if self.is_over() {
                break;
            }
            let wrong = "[module.limits]\ntime = 'soon'\n".to_owned();
            let text = if number % 5 == 4 { wrong } else { settings(8 + number % 2) };
            fs::write(&*self.settings, text).unwrap();
            let reloaded = match self.control.reload().await {
                Ok(report) if report.replaced.is_empty() => "nothing anew",
                Ok(_) => "one anew",
                Err(_) if number % 5 == 4 => "refused",
                Err(error) => {
                    self.counts.wrong(&format!("reload: {error}"));
                    continue;
                }
            };
            self.counts.add(format!("reloads: {reloaded}"));
            sleep(Duration::from_secs(1)).await;
        }
        fs::write(&*self.settings, settings(8)).unwrap();
        if let Err(error) = self.control.reload().await {
            self.counts.wrong(&format!("the last reload: {error}"));
        }
    }

    /// Changes the relayer's state, and makes it faulty at times.
    async fn changes(self, relayer: &Relayer) {
        let faults = [
            Fault::Garbage,
            Fault::HalfJson,
            Fault::ClosesMidResponse,
            Fault::Status500,
            Fault::Refuses,
        ];
        for number in 0_usize.. {
            if self.is_over() {
                break;
            }
            relayer.change(|script| {
                script.state = state(&["ibc-0", "ibc-1"], 1 + number % 50, false);
                script.fault = (number % 20 == 19).then(|| faults[number / 20 % faults.len()]);
            });
            self.counts.add("changes of the state");
            sleep(Duration::from_millis(150)).await;
        }
        relayer.change(|script| script.fault = None);
    }
}

/// The resources that a process holds.
struct Held {
    memory: u64,
    /// The target of each open file.
    files: Vec<String>,
    /// The threads for long runs; `threads` has the names of all others.
    long_runs: usize,
    threads: Vec<String>,
}

/// Returns the resources of the idle server. The server polls its relayer all the time,
/// so the open files are the fewest that were seen at several moments.
async fn usage_at_rest(process: i32, relayer: &Relayer) -> Held {
    sleep(REST).await;
    let mut files = open_files(process);
    for _ in 0..20 {
        sleep(Duration::from_millis(37)).await;
        files = std::cmp::min_by_key(files, open_files(process), Vec::len);
    }
    let memory = measure::resident_memory_of(process);
    // The responses are read on threads for blocking work. One more is started if the last one is
    // not idle yet, and all of them are kept for as long as there are responses.
    relayer.change(|script| script.fault = Some(Fault::Hangs));
    sleep(KEEP_ALIVE).await;
    let (long_runs, threads): (Vec<_>, _) =
        threads(process).into_iter().partition(|name| name == "long-runs");
    relayer.change(|script| script.fault = None);
    Held { memory, files, long_runs: long_runs.len(), threads }
}

fn threads(process: i32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        // A thread may have ended since.
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}

fn open_files(process: i32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    links
        // A file may have been closed since.
        .filter_map(|link| fs::read_link(link.ok()?.path()).ok())
        .map(|target| match target.to_str().unwrap_or_default().split_once(":[") {
            Some((kind, _)) => kind.to_owned(),
            None => target.display().to_string(),
        })
        .collect()
}

/// Returns the names that are in `after` and not in `before`.
fn more(before: &[String], after: &[String]) -> Vec<String> {
    let mut more = after.to_vec();
    for name in before {
        if let Some(place) = more.iter().position(|other| other == name) {
            more.swap_remove(place);
        }
    }
    more
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} cores of {}", name.unwrap_or("an unknown processor"))
}
