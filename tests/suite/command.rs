//! Does the command behave as documented?

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use relayer_rest_host::module::Digest;
use relayer_rest_tests::client::{Answer, Client};
use relayer_rest_tests::command::{self, Ended, Serving};
use relayer_rest_tests::component;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const CONFIG: &str = include_str!("../fixtures/hermes-0.7.toml");

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

async fn serve(args: &[&str]) -> Serving {
    command::serve(program(), args).await
}

async fn run(args: &[&str]) -> Ended {
    command::run(program(), args).await
}

/// Writes a file, which exists as long as the folder.
fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn signal(process: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(process.id()).unwrap(), signal).unwrap();
}

/// Checks the status, and the message, which is the last line on stderr.
#[track_caller]
fn check_failure(ended: &Ended, status: i32, message: &str) {
    assert_eq!(ended.status, Some(status), "{ended:?}");
    assert_eq!(ended.stdout, "", "nothing is served");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with(&format!("relayer-rest: {message}")), "{last}");
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[tokio::test]
async fn without_a_configuration_the_sample_is_served() {
    for args in [&["--listen", "127.0.0.1:0"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let process = serve(args).await;
        let mut client = Client::http1(process.address()).await;
        client
            .get("/chains")
            .await
            .check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
        assert!(client.get("/state").await.text().contains("07-tendermint-1"));
        signal(&process, Signal::TERM);
        let ended = process.ended().await;
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_relayers_configuration_is_served_where_it_says() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = folder();
    let config =
        file(&folder, "config.toml", CONFIG.replace("port = 3000", &format!("port = {free}")));
    let process = serve(&["serve", "--relayer-config", &config]).await;
    assert_eq!(process.line, format!("http://127.0.0.1:{free}"));
    let mut client = Client::http1(process.address()).await;
    assert_eq!(client.get("/chain/ibc-1").await.status, 200);
    signal(&process, Signal::TERM);
    assert_eq!(process.ended().await.status, Some(0));
}

#[tokio::test]
async fn listen_overrides_the_relayers_host_and_port() {
    let folder = folder();
    let config = file(
        &folder,
        "config.toml",
        CONFIG.replace("'127.0.0.1'\nport = 3000", "'192.0.2.1'\nport = 1"),
    );
    // The test uses IPv6 if the machine has it.
    let host = TcpListener::bind("[::1]:0").map_or("127.0.0.1", |_| "[::1]");
    let process = serve(&["--relayer-config", &config, "--listen", &format!("{host}:0")]).await;
    assert!(process.line.starts_with(&format!("http://{host}:")), "{}", process.line);
    assert_ne!(process.address().port(), 0);
    assert_eq!(Client::http1(process.address()).await.get("/chains").await.status, 200);
}

#[tokio::test]
async fn with_a_configuration_alone_the_state_is_not_ready() {
    let folder = folder();
    let config = file(&folder, "config.toml", CONFIG);
    let process = serve(&["--relayer-config", &config, "--listen", "127.0.0.1:0"]).await;
    let answer = Client::http1(process.address()).await.get("/state").await;
    let msg = "the relayer's state is not known: its configuration file tells the chains, not the \
        workers; start with --upstream URL or --state FILE to give them";
    answer.check_error(503, "NotReady", msg);
    assert_eq!(answer.header("retry-after"), "60");
    signal(&process, Signal::TERM);
    let ended = process.ended().await;
    assert!(ended.stderr.contains("/state answers 503 NotReady: "), "{}", ended.stderr);
}

#[tokio::test]
async fn an_api_that_is_switched_off_ends_with_3() {
    let folder = folder();
    for (name, text, state) in [
        ("false.toml", "[rest]\nenabled = false", "`enabled` in the section [rest] is false"),
        ("missing.toml", "[rest]\nport = 1", "`enabled` in the section [rest] is missing"),
        ("no-rest.toml", "[[chains]]\nid = 'a'", "`enabled` in the section [rest] is missing"),
        ("empty.toml", "", "`enabled` in the section [rest] is missing"),
    ] {
        let config = file(&folder, name, text);
        for listen in [None, Some("127.0.0.1:0")] {
            let mut args = vec!["--relayer-config", &config];
            args.extend(listen.iter().flat_map(|address| ["--listen", address]));
            let message = format!(
                "relayer configuration {config}: {state}; set `enabled = true` in the section [rest] to serve the API"
            );
            check_failure(&run(&args).await, 3, &message);
        }
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_ends_with_2() {
    let folder = folder();
    let chain = "[rest]\nenabled = true\n[[chains]]\nid = 'ibc-0'\n";
    let missing = folder.path().join("missing.toml");
    for (text, message) in [
        (include_str!("../fixtures/malformed.toml").to_owned(), "line 9, column "),
        (
            "[rest]\nenabled = true\nport = 70000".to_owned(),
            "line 3, column 8: rest.port: invalid value: integer `70000`",
        ),
        (
            "[rest]\nenabled = 'yes'".to_owned(),
            "line 2, column 11: rest.enabled: invalid type: string \"yes\"",
        ),
        (
            format!("{chain}max_gas = 'lots'"),
            "line 5, column 11: chain 'ibc-0': max_gas: invalid type: string \"lots\", expected u64",
        ),
        (
            format!("{chain}max_gas = -1"),
            "line 5, column 11: chain 'ibc-0': max_gas: invalid value: integer `-1`, expected u64",
        ),
        (
            format!("{chain}gas_price = {{ price = 'x', denom = 'a' }}"),
            "line 5, column 23: chain 'ibc-0': gas_price.price: invalid type",
        ),
        (
            format!("{chain}rpc_timeout = '10 parsecs'"),
            "line 5, column 15: chain 'ibc-0': rpc_timeout: '10 parsecs' is not a duration",
        ),
        (
            format!("{chain}rpc_addr = 'hunter2'"),
            "line 5, column 12: chain 'ibc-0': rpc_addr: not a URL (relative URL without a base); expected",
        ),
        (
            format!("{chain}trust_threshold = '2/0'"),
            "line 5, column 19: chain 'ibc-0': trust_threshold: the denominator is 0",
        ),
        (
            format!("{chain}gas_multiplier = nan"),
            "line 5, column 18: chain 'ibc-0': gas_multiplier: invalid value: floating point `NaN`, expected a finite number",
        ),
        (
            format!("{chain}[[chains]]\nid = 'ibc-0'"),
            "line 6, column 6: chain 'ibc-0' is already configured in line 4; remove one of the two",
        ),
        (
            "[rest]\nenabled = true\n[[chains]]\nmax_gas = 1".to_owned(),
            "line 3, column 1: chains[0]: missing field `id`",
        ),
    ] {
        let config = file(&folder, "config.toml", &text);
        let ended = run(&["--relayer-config", &config, "--listen", "127.0.0.1:0"]).await;
        check_failure(&ended, 2, &format!("relayer configuration {config}: {message}"));
        assert!(!ended.stderr.contains("hunter2"), "a URL may hold a password");
    }
    let ended = run(&["--relayer-config", missing.to_str().unwrap()]).await;
    check_failure(
        &ended,
        2,
        &format!("relayer configuration {}: cannot be read: ", missing.display()),
    );
    let config = file(&folder, "latin1.toml", b"a = 1\nb = '\xe9'");
    let ended = run(&["--relayer-config", &config]).await;
    check_failure(&ended, 2, &format!("relayer configuration {config}: line 2 is not UTF-8 text"));
}

#[tokio::test]
async fn an_address_in_use_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["--listen", &address]).await;
    check_failure(&ended, 2, &format!("cannot listen on {address}: "));
    assert!(ended.stderr.contains("another program listens there"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_address_that_is_none_ends_with_2() {
    for listen in ["127.0.0.1", "127.0.0.1:port", ":3000"] {
        let ended = run(&["--listen", listen]).await;
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("--listen <HOST:PORT>"), "{}", ended.stderr);
    }
    check_failure(&run(&["--listen", "192.0.2.1:0"]).await, 2, "cannot listen on 192.0.2.1:0: ");
}

#[tokio::test]
async fn a_module_in_a_file_is_served() {
    let folder = folder();
    let module = file(&folder, "api.wasm", component::of_answer(299, "x-made-by", b"hand"));
    let process = serve(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    assert_eq!(Client::http1(process.address()).await.get("/").await.status, 299);
}

#[tokio::test]
async fn a_module_that_is_refused_ends_with_2() {
    let folder = folder();
    let module = file(&folder, "api.wasm", "not wasm");
    let ended = run(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    check_failure(&ended, 2, &format!("module {module}: is not WebAssembly"));
}

#[tokio::test]
async fn the_settings_name_the_module_and_its_limits() {
    let folder = folder();
    file(&folder, "api.wasm", component::of_handler("(loop br 0) unreachable"));
    let text = "[module]\nfile = 'api.wasm'\n[module.limits]\ntime = '20ms'\n";
    let config = file(&folder, "relayer-rest.toml", text);
    let process = serve(&["--listen", "127.0.0.1:0", "--config", &config]).await;
    let answer = Client::http1(process.address()).await.get("/").await;
    answer.check_error(504, "Timeout", "the request took too long to handle");
}

#[tokio::test]
async fn settings_that_cannot_be_used_end_with_2() {
    let folder = folder();
    let config = file(&folder, "relayer-rest.toml", "[module]\npath = 'x'");
    let ended = run(&["--config", &config]).await;
    check_failure(
        &ended,
        2,
        &format!("configuration {config}: line 2, column 1: module.path: unknown field `path`"),
    );
}

/// The bound holds for any path of the request and any log lines of the module.
#[tokio::test]
async fn what_a_request_writes_to_the_log_is_bounded_as_it_is_written() {
    // Escaped, each of these bytes takes six.
    let odd = "(memory.fill (i32.const 1024) (i32.const 27) (i32.const 60000))";
    let short_lines = "(local $left i32) (local.set $left (i32.const 64))
        (loop $on (call $log (i32.const 2) (i32.const 64) (i32.const 1))
            (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.store16 (i32.const 0) (i32.const 204)) i32.const 0";
    let odd_line = format!(
        "{odd} (call $log (i32.const 2) (i32.const 1024) (i32.const 10000))
        (i32.store16 (i32.const 0) (i32.const 204)) i32.const 0"
    );
    let odd_name = format!(
        "{odd} (i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 4) (i32.const 32)) (i32.store (i32.const 8) (i32.const 1))
        (i32.store (i32.const 32) (i32.const 1024)) (i32.store (i32.const 36) (i32.const 60000))
        i32.const 0"
    );
    for (module, status, part, most) in [
        (component::of_handler_that_logs("a", short_lines), 204, "the rest is left out", 16 << 10),
        (component::of_handler_that_logs("", &odd_line), 204, "the rest is left out", 16 << 10),
        (component::of_handler(&odd_name), 502, "header name", 1 << 10),
    ] {
        let folder = folder();
        let file = file(&folder, "logs.wasm", &module);
        let mut process = serve(&["--listen", "127.0.0.1:0", "--module", &file]).await;
        let path = format!("/{}", "a".repeat(7900));
        let answer = Client::http1(process.address()).await.get(&path).await;
        assert_eq!(answer.status, status);
        process.logged(part).await;
        let of_it = process.log().lines().filter(|line| line.contains("request{id="));
        let written: usize = of_it.map(str::len).sum();
        // The sum includes the line about the excess.
        assert!((1..most + 600).contains(&written), "{written} bytes: {}", process.log());
    }
}

/// A module can neither fill the log nor forge lines in it.
#[tokio::test]
async fn a_module_that_floods_the_log_writes_so_much_and_no_lines_of_others() {
    let folder = folder();
    let module = component::hostile::log_flood();
    let file = file(&folder, "flood.wasm", &module);
    let config = self::file(
        &folder,
        "c.toml",
        "[module.limits]\ntime = '50ms'\nlog = '2000B'\nlog_rate = '3KiB'",
    );
    let listen = ["--listen", "127.0.0.1:0", "--module", &file, "--config", &config];
    let mut process = serve(&listen).await;
    let mut client = Client::http1(process.address()).await;
    for number in 0..4 {
        let id = format!("request-{number}");
        let answer = client.ask_with("GET", &format!("/{number}"), &[("x-request-id", &id)]).await;
        assert_eq!(answer.status, 504);
    }
    // The number of omitted lines is logged in the next second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.get("/later").await;
    process.logged("lines of the module were left out").await;
    let log = process.log().to_owned();
    for part in [
        "the module logs more than 2.0 KiB for a request (limits.log)",
        "the module logs more than 3.0 KiB a second (limits.log_rate); lines are left out",
        "request{id=request-0 method=GET path=\"/0\"}: module: a\\n2026-01-01T00:00:00Z  INFO",
        &format!("module=\"api@{}\"", Digest::of(&module).short()),
    ] {
        assert!(log.contains(part), "{part} is not in: {log}");
    }
    let lines = log.lines().filter(|line| line.contains("all is well"));
    assert!((10..=20).contains(&lines.count()), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log}");
}

/// A module cannot fill the log with empty lines either.
#[tokio::test]
async fn lines_without_a_message_count_too() {
    let folder = folder();
    let code = "(loop (call $log (i32.const 2) (i32.const 64) (i32.const 0)) br 0) unreachable";
    let module = component::of_handler_that_logs("", code);
    let file = file(&folder, "empty.wasm", &module);
    for (log, most) in [("4KiB", 30), ("0B", 0)] {
        let config = format!("[module.limits]\ntime = '50ms'\nlog = '{log}'");
        let config = self::file(&folder, "c.toml", config);
        let listen = ["--listen", "127.0.0.1:0", "--module", &file, "--config", &config];
        let mut process = serve(&listen).await;
        let answer = Client::http1(process.address()).await.get("/").await;
        assert_eq!(answer.status, 504);
        process.logged("took longer").await;
        let lines = process.log().lines().filter(|line| line.contains("INFO request{")).count();
        assert!(lines <= most && (lines > 0) == (most > 0), "{lines}: {}", process.log());
    }
}

/// Endless files are rejected, too.
#[tokio::test]
async fn settings_that_are_no_text_end_with_2() {
    let folder = folder();
    let latin = file(&folder, "latin.toml", b"[module]\n# \xe9");
    for (config, message) in [
        (latin.as_str(), "line 2, column 3: it is not UTF-8; save it as such"),
        ("/dev/zero", "cannot be read: it is larger than 4.0 MiB; "),
    ] {
        let ended = run(&["--config", config]).await;
        check_failure(&ended, 2, &format!("configuration {config}: {message}"));
    }
}

#[tokio::test]
async fn options_that_say_two_things_are_refused() {
    for options in [["--control=c", "--no-control"], ["--code-cache=c", "--no-code-cache"]] {
        let ended = run(&options).await;
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    }
}

/// Returns a component that logs `begun`, runs for this number of rounds, and responds
/// with 204.
fn busy(rounds: u64) -> Vec<u8> {
    component::of_handler_that_logs(
        "begun",
        &format!(
            "(local $round i64)
             (call $log (i32.const 2) (i32.const 64) (i32.const 5))
             (loop
                (local.set $round (i64.add (local.get $round) (i64.const 1)))
                (br_if 0 (i64.lt_u (local.get $round) (i64.const {rounds}))))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0"
        ),
    )
}

#[tokio::test]
async fn the_process_ends_with_0_after_requests_in_flight() {
    let folder = folder();
    let module = file(&folder, "slow.wasm", busy(200_000_000));
    let settings = file(&folder, "relayer-rest.toml", "[module.limits]\ntime = '60s'");
    for number in [Signal::TERM, Signal::INT] {
        // A busy machine may need more than the default of 10 s.
        let args = ["--listen", "127.0.0.1:0", "--module", &module, "--config", &settings];
        let mut process = serve(&[&args[..], &["--grace", "1min"]].concat()).await;
        let idle = Client::http1(process.address()).await;
        let mut client = Client::http1(process.address()).await;
        let answer = tokio::spawn(async move { client.get("/").await });
        process.logged("begun").await;
        signal(&process, number);
        process.logged("requests in flight are finished").await;
        assert_eq!(answer.await.unwrap().status, 204);
        let ended = process.ended().await;
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        drop(idle);
    }
}

/// Starts a server of a module that never ends, and sends it a request.
async fn asked_for_ever(folder: &TempDir, args: &[&str]) -> (Serving, JoinHandle<Answer>) {
    let module = file(folder, "busy.wasm", busy(u64::MAX));
    let settings = file(folder, "relayer-rest.toml", "[module.limits]\ntime = '1h'");
    let given = ["--listen", "127.0.0.1:0", "--module", &module, "--config", &settings];
    let mut process = serve(&[&given, args].concat()).await;
    let mut client = Client::http1(process.address()).await;
    let asking = tokio::spawn(async move { client.get("/").await });
    process.logged("begun").await;
    (process, asking)
}

#[tokio::test]
async fn what_does_not_end_is_dropped_when_the_time_for_that_is_over() {
    let folder = folder();
    let (process, asking) = asked_for_ever(&folder, &["--grace", "200ms"]).await;
    signal(&process, Signal::TERM);
    let ended = process.ended().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let message = "1 connections are not done after 200ms and are dropped";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    // The connection of the dropped request is closed.
    assert!(asking.await.unwrap_err().is_panic());
}

/// A disconnect is not a fault of the server.
#[tokio::test]
async fn a_client_that_goes_away_is_no_error_in_the_log() {
    let folder = folder();
    let (process, asking) = asked_for_ever(&folder, &[]).await;
    asking.abort();
    drop(asking.await);
    // The server is idle before its grace period ends.
    signal(&process, Signal::TERM);
    let log = process.ended().await.stderr;
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[tokio::test]
async fn a_signal_while_it_starts_ends_it_with_0() {
    let program = program().to_owned();
    let mut child = std::process::Command::new(program)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of the log is written before the module is compiled.
    let mut line = String::new();
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut log, &mut line).unwrap();
    assert!(line.contains("serving the sample relayer"), "{line}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Settings can come from a pipe.
#[tokio::test]
async fn a_signal_while_a_pipe_is_read_ends_it_with_0() {
    let folder = folder();
    for option in ["--config", "--relayer-config"] {
        let pipe = folder.path().join(option);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut child = std::process::Command::new(program())
            .args(["--listen", "127.0.0.1:0", option])
            .arg(&pipe)
            .spawn()
            .unwrap();
        // A pipe opens when both ends are opened.
        let _writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[tokio::test]
async fn the_log_has_under_the_requests_id_what_clients_are_not_told() {
    // Logs a text with a line break and an escape, then traps.
    let component = component::of_handler_that_logs(
        r"one\0a\1b[31mtwo",
        "(call $log (i32.const 3) (i32.const 64) (i32.const 12)) unreachable",
    );
    let folder = folder();
    let module = file(&folder, "api.wasm", component);
    let process = serve(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    let mut client = Client::http1(process.address()).await;
    let answer = client.ask_with("GET", "/", &[("x-request-id", "my-id")]).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (500, "my-id"));
    assert!(!answer.text().contains("unreachable"), "{}", answer.text());
    signal(&process, Signal::TERM);
    let log = process.ended().await.stderr;
    let line = |wanted: &str| log.lines().find(|line| line.contains(wanted)).unwrap_or_default();
    let logged = line("one");
    assert!(logged.contains("id=my-id") && logged.contains(r"one\n\u{1b}[31mtwo"), "{log}");
    let trap = line("the module trapped");
    assert!(trap.contains("id=my-id") && trap.contains("unreachable"), "{log}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_ends_nothing() {
    let folder = folder();
    let module = file(&folder, "api.wasm", component::of_handler("unreachable"));
    let mut process = serve(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    process.close_log();
    let mut client = Client::http1(process.address()).await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.status, 500);
    }
    signal(&process, Signal::TERM);
    assert_eq!(process.child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_message_is_one_line_whatever_a_file_is_called() {
    let ended = run(&["--relayer-config", "/nowhere/a\nb\u{1b}[31m.toml"]).await;
    check_failure(&ended, 2, r"relayer configuration /nowhere/a\nb\u{1b}[31m.toml: cannot be read");
}

#[tokio::test]
async fn help_and_version_are_shown() {
    let help = run(&["--help"]).await;
    assert_eq!(help.status, Some(0));
    for option in [
        "serve",
        "--relayer-config <FILE>",
        "--listen <HOST:PORT>",
        "--module <FILE.wasm>",
        "--config <FILE>",
    ] {
        assert!(help.stdout.contains(option), "{option}: {}", help.stdout);
    }
    let version = run(&["--version"]).await;
    assert_eq!(version.stdout, format!("relayer-rest {}\n", env!("CARGO_PKG_VERSION")));
}

/// Sends HTTP/2 frames that the library logs as a warning each, and returns when the
/// server has processed all.
async fn provoke_warnings(address: std::net::SocketAddr, count: u64) {
    // The payload identifies the last one in the server's acknowledgement.
    let ping = |flags: u8, number: u64| {
        let mut frame = vec![0, 0, 8, 6, flags, 0, 0, 0, 0];
        frame.extend(number.to_be_bytes());
        frame
    };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for number in 0..count {
        bytes.extend(ping(1, number));
    }
    bytes.extend(ping(0, count));
    stream.write_all(&bytes).await.unwrap();
    let (mut answer, acknowledged) = (Vec::new(), ping(1, count));
    while !answer.windows(acknowledged.len()).any(|part| part == acknowledged) {
        let read = timeout(Duration::from_mins(1), stream.read_buf(&mut answer)).await.unwrap();
        assert!(read.unwrap() > 0, "the server closed the connection: {answer:?}");
    }
}

#[tokio::test]
async fn clients_cannot_fill_the_log_with_warnings_of_the_http_library() {
    const COUNT: u64 = 2000;
    let start = Instant::now();
    let process = serve(&["--listen", "127.0.0.1:0"]).await;
    for _ in 0..3 {
        provoke_warnings(process.address(), COUNT).await;
    }
    signal(&process, Signal::TERM);
    let ended = process.ended().await;
    let of_h2: Vec<_> = ended.stderr.lines().filter(|line| line.contains("h2")).collect();
    // Each second has 20 lines, a note that there are more, and one with the number of
    // omitted lines.
    let most = (start.elapsed().as_secs() + 2) * 22;
    assert!((2..=most).contains(&(of_h2.len() as u64)), "{} lines: {of_h2:#?}", of_h2.len());
    assert!(of_h2.iter().any(|line| line.contains("recv PING ack")), "{of_h2:#?}");
    let note = "h2 logs more than 20 lines a second; some are left out here";
    assert!(of_h2.iter().any(|line| line.ends_with(note)), "{of_h2:#?}");
}
