//! Does the admin listener show the health of the server, and is control left to clients with
//! a token?

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use relayer_rest_host::control::metrics::{Family, FamilyKind, families};
use relayer_rest_tests::client::raw;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Fault, Relayer, Script};
use relayer_rest_tests::wait::{until_async, within};
use rustix::process::Signal;

use super::{busy, check_failure};

const TOKEN: &str = "authorization: Bearer 0123456789abcdef\r\n";

/// The listener of a server.
pub(super) struct Admin(SocketAddr);

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Admin {
    /// Waits until the log has the address.
    pub(super) async fn of(serving: &mut Serving) -> Self {
        const LINE: &str = "admin listener ready address=";
        // The line comes before the address of the server.
        serving.logged(LINE).await;
        let (_, rest) = serving.log().split_once(LINE).unwrap();
        Self(rest.lines().next().unwrap().parse().unwrap())
    }

    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        let length = body.len();
        let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let response = raw(self.0, request.as_bytes()).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        Response { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(super) async fn get(&self, path: &str) -> (u16, String) {
        let response = self.send("GET", path, "", "").await;
        (response.status, response.body)
    }
}

/// Returns settings with an admin listener, and with these lines in its section.
fn settings(files: &Folder, lines: &str) -> String {
    let settings = format!("[admin]\nlisten = '127.0.0.1:0'\n{lines}\n");
    files.write("relayer-rest.toml", settings)
}

/// Writes a file of tokens that is valid.
fn write_tokens(files: &Folder, content: &str) {
    let tokens = files.write("tokens", content);
    fs::set_permissions(tokens, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn the_server_is_ready_from_the_first_state_on() {
    let files = Folder::new();
    let relayer = Relayer::start(Script::of_1_13());
    relayer.change(|script| script.fault = Some(Fault::Status500));
    let settings = settings(&files, "");
    let args = ["--config", &settings, "--upstream", &relayer.url(), "--poll", "100ms"];
    let mut serving = Program::server().args(args).start().await;
    let admin = Admin::of(&mut serving).await;
    assert_eq!(admin.get("/livez").await, (200, "ok".to_owned()));
    let unready = admin.send("GET", "/readyz", "", "").await;
    assert_eq!(unready.status, 503);
    assert!(unready.head.contains("\r\nretry-after: 1"), "{}", unready.head);
    assert!(unready.body.starts_with("[-]state failed: "), "{}", unready.body);
    assert!(unready.body.ends_with("[+]draining ok\nreadyz check failed\n"), "{}", unready.body);

    relayer.change(|script| script.fault = None);
    until_async("it is ready", async || admin.get("/readyz").await.0 == 200).await;
    assert_eq!(admin.get("/readyz").await.1, "ok");
    let head = admin.send("HEAD", "/readyz", "", "").await;
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[tokio::test]
async fn the_server_is_not_ready_while_it_completes_requests_at_the_end() {
    let files = Folder::new();
    let module = files.write("busy.wasm", busy(u64::MAX));
    let settings = settings(&files, "[module.limits]\ntime = '1h'");
    let args = ["--config", &settings, "--module", &module, "--dialect", "any"];
    let program = Program::server().args(args).args(["--grace", "10min"]);
    let mut serving = program.start().await;
    let admin = Admin::of(&mut serving).await;
    assert_eq!(admin.get("/readyz").await.0, 200);
    let mut client = serving.connect().await;
    let pending = tokio::spawn(async move { client.get(TRAP).await });
    serving.logged("begun").await;
    serving.signal(Signal::TERM);
    let draining = async || {
        let (status, body) = admin.get("/readyz").await;
        status == 503 && body.contains("[-]draining failed: the server is shutting down\n")
    };
    until_async("it is draining", draining).await;
    assert_eq!(admin.get("/livez").await.0, 200);
    assert!(serving.control_client().status().await.unwrap().connections.unwrap().draining);
    pending.abort();
    pending.await.unwrap_err();
    assert_eq!(serving.ended().await.status, Some(0));
}

#[tokio::test]
async fn control_over_tcp_needs_a_token() {
    const VERBS: [(&str, &str); 5] = [
        ("GET", "/status"),
        ("POST", "/rollback"),
        ("POST", "/swap"),
        ("POST", "/reload"),
        ("PUT", "/log-level"),
    ];
    let files = Folder::new();
    write_tokens(&files, "ops 0123456789abcdef\n");
    let without = settings(&files, "");
    let mut serving = Program::server().args(["--config", &without]).start().await;
    let admin = Admin::of(&mut serving).await;
    for (method, path) in VERBS {
        let response = admin.send(method, path, TOKEN, "").await;
        assert_eq!(response.status, 403, "{path}");
        assert!(response.body.contains("set admin.token-file"), "{}", response.body);
    }
    serving.stop().await;

    let with = settings(&files, "token-file = 'tokens'");
    let mut serving = Program::server().args(["--config", &with]).start().await;
    let admin = Admin::of(&mut serving).await;
    for (method, path) in VERBS {
        let response = admin.send(method, path, "", "").await;
        assert_eq!(response.status, 401, "{path}");
        assert!(response.head.contains("\r\nwww-authenticate: bearer"), "{}", response.head);
        let other = "authorization: Bearer 0123456789abcdeg\r\n";
        assert_eq!(admin.send(method, path, other, "").await.status, 403, "{path}");
    }
    let status = admin.send("GET", "/status", TOKEN, "").await;
    assert_eq!(status.status, 200);
    assert!(status.body.contains(r#""mounts":[{"name":"api""#), "{}", status.body);
    assert_eq!(admin.send("POST", "/rollback", TOKEN, "").await.status, 409);
    let line = r#"audit: control request client="ops" request="POST /rollback" status=409"#;
    serving.logged(line).await;
    assert!(!serving.log().contains("0123456789"), "{}", serving.log());

    // A token that was removed is not valid any more.
    write_tokens(&files, "ops fedcba9876543210\n");
    assert_eq!(admin.send("GET", "/status", TOKEN, "").await.status, 403);
    fs::remove_file(files.join("tokens")).unwrap();
    let unreadable = admin.send("GET", "/status", TOKEN, "").await;
    assert_eq!(unreadable.status, 500);
    assert!(unreadable.body.contains("check the path and its permissions"), "{}", unreadable.body);
    // The control socket needs none.
    serving.control_client().status().await.unwrap();
}

/// `/config` needs no token.
#[tokio::test]
async fn secrets_are_masked_in_the_settings() {
    let files = Folder::new();
    write_tokens(&files, "ops 0123456789abcdef");
    let tokens = "token-file = 'tokens'\n[commands]\nclear-packets = true\ntoken-file = 'tokens'\n\
        [upstream]\nurl = 'http://user:secret@127.0.0.1:1/'";
    let settings = settings(&files, tokens);
    let args = ["--config", &settings, "--telemetry", "http://other:hidden@127.0.0.1:2/metrics"];
    let mut serving = Program::server().args(args).start().await;
    let admin = Admin::of(&mut serving).await;
    let (status, config) = admin.get("/config").await;
    assert_eq!(status, 200);
    for shown in ["127.0.0.1:1", "127.0.0.1:2/metrics", "tokens"] {
        assert!(config.contains(shown), "{shown}: {config}");
    }
    for secret in ["secret", "hidden", "0123456789abcdef"] {
        assert!(!config.contains(secret), "{secret}: {config}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn the_level_of_the_log_can_be_changed() {
    let files = Folder::new();
    write_tokens(&files, "ops 0123456789abcdef\n");
    let settings = settings(&files, "token-file = 'tokens'");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    assert_eq!(admin.get("/log-level").await, (200, "info".to_owned()));
    serving.connect().await.get("/version").await;
    for level in ["info,relayer_rest_server=debug", " debug\n"] {
        let set = admin.send("PUT", "/log-level", TOKEN, level).await;
        assert_eq!(set.status, 200, "{}", set.body);
    }
    assert_eq!(admin.get("/log-level").await.1, "debug");
    serving.connect().await.get("/version").await;
    serving.logged("cache hit").await;
    assert_eq!(serving.log().matches("cache hit").count(), 1);

    for (level, problem) in [
        ("info,=", "log level: "),
        ("\u{e9}=x", "log level: "),
        ("inf", "\\\"inf\\\" is not a level; expected a level such as info"),
        ("", "\\\"\\\" is not a level"),
    ] {
        let refused = admin.send("PUT", "/log-level", TOKEN, level).await;
        assert_eq!(refused.status, 400, "{level}: {}", refused.body);
        assert!(refused.body.contains(problem), "{}", refused.body);
    }
    let large = "x=info,".repeat(1000);
    assert_eq!(admin.send("PUT", "/log-level", TOKEN, &large).await.status, 413);
    assert_eq!(admin.get("/log-level").await.1, "debug");
}

/// Returns the sum of the samples that begin with this.
pub(super) fn sum(metrics: &str, start: &str) -> u64 {
    let samples = metrics.lines().filter(|line| line.starts_with(start));
    samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn metrics_count_requests_and_deployments() {
    let files = Folder::new();
    let module = files.write("traps.wasm", component::that_traps_later("1"));
    let settings = settings(&files, "[[extension]]\nname = 'health'");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let mut client = serving.connect().await;
    for path in ["/version", "/version", "/version", "/nope", "/ext/health/livez"] {
        client.get(path).await;
    }
    client.request("HEAD", "/version").await;
    client.request("BREW", "/version").await;
    client.request_with("GET", "/version", &[("host", "two hosts")]).await;
    let metrics = admin.get("/metrics").await.1;
    let requests = |mount: &str, labels: &str| {
        let label = format!("relayer_rest_requests_total{{mount=\"{mount}\",module=");
        let lines = metrics.lines().filter(|line| line.starts_with(&label));
        lines.filter(|line| line.contains(labels)).map(|line| sum(line, "")).sum::<u64>()
    };
    assert_eq!(requests("/", r#"method="GET",status="200""#), 3, "{metrics}");
    assert_eq!(requests("/", r#"route="/version",method="GET",status="200""#), 3);
    assert_eq!(requests("/", r#"route="",method="GET",status="404""#), 1);
    assert_eq!(requests("/", r#"method="GET",status="404""#), 1);
    assert_eq!(requests("/", r#"method="HEAD",status="200""#), 1);
    assert_eq!(requests("/", r#"method="other",status="405""#), 1);
    let livez = r#"route="/ext/health/livez",method="GET",status="200""#;
    assert_eq!(requests("/ext/health", livez), 1);
    let (status, document) = admin.get("/openapi.json").await;
    assert_eq!((status, document), (200, client.get("/openapi.json").await.text().to_owned()));
    let at_root = |name: &str| sum(&metrics, &format!("relayer_rest_{name}{{mount=\"/\""));
    // The second and the third, and HEAD.
    assert_eq!((at_root("cache_hits_total"), at_root("cache_misses_total")), (3, 3));
    assert_eq!(at_root("request_duration_seconds_count"), 6);
    assert_eq!(sum(&metrics, "relayer_rest_refused_requests_total{name=\"BadRequest\"}"), 1);
    assert_eq!(sum(&metrics, "relayer_rest_connections "), 1);
    assert!(sum(&metrics, "process_resident_memory_bytes ") > 1 << 20);

    let swap = serving.control(&["swap", "--dialect", "any", "--force", &module]).await;
    assert_eq!(swap.status, Some(0), "{swap:?}");
    serving.control(&["swap", "--dialect", "any", &files.write("x.wasm", "x")]).await;
    assert_eq!(client.get(TRAP).await.status, 404);
    let metrics = admin.get("/metrics").await.1;
    let at_root = |name: &str| sum(&metrics, &format!("relayer_rest_{name}{{mount=\"/\""));
    // The counts of the module that failed are kept after its rollback.
    let of_all = |name: &str, label: &str| {
        let start = format!("relayer_rest_{name}_total{{mount=\"/\"");
        let lines = metrics.lines().filter(|line| line.starts_with(&start));
        lines.filter(|line| line.contains(label)).map(|line| sum(line, "")).sum::<u64>()
    };
    assert_eq!(of_all("failures", r#"cause="trapped""#), 1, "{metrics}");
    assert_eq!((of_all("traps", r#"kind="unreachable""#), of_all("traps", "")), (1, 1));
    for name in ["swaps_total", "swap_rejections_total", "rollbacks_total", "quarantined_modules"] {
        assert_eq!(at_root(name), 1, "{name}: {metrics}");
    }
    assert_eq!(at_root("request_duration_seconds_count"), 7);
}

/// The documentation names all families, so a server must have samples of each.
#[tokio::test]
async fn each_family_of_metrics_has_samples() {
    let files = Folder::new();
    let relayer = Relayer::start(Script::of_1_13());
    let settings = settings(&files, "[http]\nconnections-per-peer = 2\n");
    let args = ["--config", &settings, "--upstream", &relayer.url(), "--poll", "100ms"];
    let program = Program::server().args(args).args(["--capsules", &files.path("capsules")]);
    let mut serving = program.start().await;
    let admin = Admin::of(&mut serving).await;
    let mut client = serving.connect().await;
    client.get_until("/chain/ibc-0", |found| found.text().contains("success")).await;
    client.request_with("GET", "/version", &[("host", "two hosts")]).await;
    let source = async |counter: &str| {
        let name = format!("relayer_rest_source_{counter}_total{{kind=\"upstream\"");
        sum(&admin.get("/metrics").await.1, &name)
    };
    // The chains are served before the source is up.
    until_async("the relayer has responded", async || source("responses").await > 0).await;
    relayer.change(|script| script.fault = Some(Fault::Status500));
    until_async("the relayer has failed", async || source("failures").await > 0).await;
    let metrics = admin.get("/metrics").await.1;
    for Family { name, kind, .. } in families() {
        let end = match kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Histogram => "_count",
            FamilyKind::Gauge => "",
        };
        let is_sample = |line: &&str| {
            let rest = line.strip_prefix(&format!("{name}{end}"));
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        assert!(metrics.lines().any(|line| is_sample(&line)), "{name}: {metrics}");
    }
    let value = |name: &str| sum(&metrics, &format!("relayer_rest_{name}"));
    let runs = value("runs_total{mount=\"/\"");
    assert_eq!((runs, value("cache_misses_total{mount=\"/\"")), (runs, runs));
    assert!(value("instance_memory_peak_bytes{mount=\"/\"") >= 64 << 10);
    assert!(value("cache_bytes{mount=\"/\"") > 0);
    assert_eq!((value("state_ready "), value("snapshot_confirmed ")), (1, 0));
    assert!(value("source_responses_total{kind=\"upstream\"") > 0);
    assert_eq!(value("source_up{kind=\"upstream\""), 0);
    assert_eq!((value("connections_accepted_total "), value("connections_refused_total ")), (1, 0));
    assert!(metrics.contains(",wasmtime=\""), "{metrics}");
    assert!(sum(&metrics, "process_threads ") > 1);
    serving.stop().await;
}

/// Probes of the health need no token, so that anyone in their network can connect.
#[tokio::test]
async fn clients_that_read_nothing_do_not_keep_others_away() {
    let files = Folder::new();
    let settings = settings(&files, "");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // Of more requests than the system buffers responses.
    let requests = request.repeat(2_000);
    let mut stalled = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(admin.0).unwrap();
        stream.set_nonblocking(true).unwrap();
        // As much as the system takes.
        drop(stream.write_all(requests.as_bytes()));
        stalled.push(stream);
        assert_eq!(within("a response", admin.get("/livez")).await, (200, "ok".to_owned()));
    }
    // The last ones still have a place.
    let open = stalled.iter().filter(|stream| stream.peek(&mut [0]).is_ok_and(|read| read > 0));
    assert!(open.count() > 0);
    serving.stop().await;
}

#[tokio::test]
async fn slow_requests_for_control_do_not_keep_probes_away() {
    let files = Folder::new();
    write_tokens(&files, "ops 0123456789abcdef\n");
    let settings = settings(&files, "token-file = 'tokens'");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let head =
        format!("PUT /log-level HTTP/1.1\r\nhost: localhost\r\n{TOKEN}content-length: 4\r\n\r\n");
    let mut slow = Vec::new();
    // A connection whose request has not been read yet loses its place to a further one, so
    // that no fixed number of them has 8 requests in progress.
    until_async("too many requests for control are in progress", async || {
        let mut stream = TcpStream::connect(admin.0).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        slow.push(stream);
        let response = admin.send("GET", "/status", TOKEN, "").await;
        response.status == 503 && response.body.contains("8 other requests for control")
    })
    .await;
    assert_eq!(within("a response", admin.get("/livez")).await, (200, "ok".to_owned()));
    drop(slow);
    until_async("they have ended", async || {
        admin.send("GET", "/status", TOKEN, "").await.status == 200
    })
    .await;
    serving.stop().await;
}

#[tokio::test]
async fn the_description_of_routes_is_that_of_clients() {
    let files = Folder::new();
    let settings = settings(&files, "[http]\nbase-path = '/relayer'\n");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let document = serving.connect().await.get("/relayer/openapi.json").await;
    assert!(document.text().contains(r#""servers":[{"url":"/relayer"}]"#));
    assert_eq!(admin.get("/openapi.json").await, (200, document.text().to_owned()));
    serving.stop().await;
}

#[tokio::test]
async fn metrics_have_the_format_that_the_client_accepts() {
    let files = Folder::new();
    let settings = settings(&files, "");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let open = "accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1\r\n";
    for (accept, content_type, described, end) in [
        ("", "text/plain; version=0.0.4", "# TYPE relayer_rest_swaps_total counter\n", false),
        (open, "application/openmetrics-text; ", "# TYPE relayer_rest_swaps counter\n", true),
    ] {
        let Response { status, head, body } = admin.send("GET", "/metrics", accept, "").await;
        assert_eq!(status, 200);
        assert!(head.contains(&format!("\r\ncontent-type: {content_type}")), "{head}");
        assert!(body.contains(described), "{body}");
        assert_eq!(body.ends_with("# EOF\n"), end);
    }
}

#[tokio::test]
async fn requests_are_for_a_route_and_a_host_of_the_listener() {
    let files = Folder::new();
    let settings = settings(&files, "");
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    let admin = Admin::of(&mut serving).await;
    let wrong = admin.send("DELETE", "/log-level", TOKEN, "").await;
    assert_eq!(wrong.status, 405);
    assert!(wrong.head.contains("\r\nallow: get, put\r\n"), "{}", wrong.head);
    assert_eq!(admin.get("/chains").await.0, 404);
    // A web page could have a name that resolves to this address.
    for (host, status) in [("evil.example", 421), ("127.0.0.1:1", 200), ("[::1]", 200)] {
        let response = admin.send("GET", "/livez", &format!("host: {host}\r\n"), "").await;
        assert_eq!(response.status, status, "{host}");
    }
}

#[tokio::test]
async fn a_unix_socket_is_for_its_owner() {
    let files = Folder::new();
    let content = "[admin]\nlisten = 'unix:admin.sock'\n";
    let settings = files.write("relayer-rest.toml", content);
    let mut serving = Program::server().args(["--config", &settings, "--no-control"]).start().await;
    serving.logged("admin listener ready").await;
    let socket = files.join("admin.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    // Its file is removed although clients are connected.
    let idle: Vec<_> = (0..8).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    serving.stop().await;
    assert!(!socket.exists());
    drop(idle);
}

#[tokio::test]
async fn a_listener_that_cannot_be_used_is_an_error_at_the_start() {
    let files = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (content, message) in [
        (format!("listen = '{address}'"), format!("admin.listen {address}: cannot listen: ")),
        (
            "listen = 'localhost'".to_owned(),
            format!(
                "configuration {}: line 2, column 10: admin.listen: \"localhost\" is not an address; expected an IP address with a port, such as \"127.0.0.1:9901\", or \"unix:PATH\"",
                files.path("c.toml")
            ),
        ),
        (
            "listen = '127.0.0.1:0'\ntoken-file = 'missing'".to_owned(),
            format!("admin.token-file: tokens {}: cannot be read: ", files.path("missing")),
        ),
    ] {
        let config = files.write("c.toml", format!("[admin]\n{content}\n"));
        let ended = Program::server().args(["--config", &config]).run().await;
        check_failure(&ended, 2, &message);
    }
}
