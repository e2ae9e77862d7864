//! Is the log complete, bounded, and safe to read?

use std::time::Instant;

use relayer_rest_host::module::Digest;
use relayer_rest_tests::cargo::WASI_GUEST;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::within;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{check_failure, spinning};

/// The bound holds for any path of the request and any log lines of the module.
#[tokio::test]
async fn the_log_of_a_request_is_bounded_after_escaping() {
    // Escaped, each of these bytes takes six.
    let odd = "(memory.fill (i32.const 1024) (i32.const 27) (i32.const 60000))";
    let path = format!("/{}", "a".repeat(7900));
    let guard = component::only_for(&path);
    let short_lines = format!(
        "(local $left i32) {guard} (local.set $left (i32.const 64))
        (loop $on (call $log (i32.const 2) (i32.const 64) (i32.const 1))
            (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.store16 (i32.const 0) (i32.const 204)) i32.const 0"
    );
    let odd_line = format!(
        "{guard} {odd} (call $log (i32.const 2) (i32.const 1024) (i32.const 10000))
        (i32.store16 (i32.const 0) (i32.const 204)) i32.const 0"
    );
    let odd_name = format!(
        "{guard} {odd} (i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 4) (i32.const 32)) (i32.store (i32.const 8) (i32.const 1))
        (i32.store (i32.const 32) (i32.const 1024)) (i32.store (i32.const 36) (i32.const 60000))
        i32.const 0"
    );
    for (module, status, part, most) in [
        (
            component::of_handler_that_logs("a", &short_lines),
            204,
            "log of a request truncated",
            16 << 10,
        ),
        (
            component::of_handler_that_logs("", &odd_line),
            204,
            "log of a request truncated",
            16 << 10,
        ),
        (component::of_handler(&odd_name), 502, "header name", 1 << 10),
    ] {
        let folder = Folder::new();
        let file = folder.write("logs.wasm", &module);
        let args = ["--module", &file, "--dialect", "any"];
        let mut process = Program::server().args(args).start().await;
        let response = process.connect().await.get(&path).await;
        assert_eq!(response.status, status);
        process.logged(part).await;
        let of_it = process.log().lines().filter(|line| line.contains("request{id="));
        let written: usize = of_it.map(str::len).sum();
        // The sum includes the line about the excess.
        assert!((1..most + 600).contains(&written), "{written} bytes: {}", process.log());
    }
}

/// A module can neither fill the log nor forge lines in it.
#[tokio::test]
async fn a_module_can_neither_flood_the_log_nor_forge_lines() {
    let folder = Folder::new();
    let text = r"a\0a2026-01-01T00:00:00Z  INFO relayer_rest: all is well\1b[2K\e2\80\ae";
    let guard = component::only_for(TRAP);
    let flood = "(loop $more (call $log (i32.const 4) (i32.const 64) (i32.const 61)) (br $more))";
    let module = format!("{guard} {flood} unreachable");
    let module = component::of_handler_that_logs(text, &module);
    let file = folder.write("flood.wasm", &module);
    let limits = "time = '50ms'\nqueue-wait = '10min'\nlog = '2000B'\nlog-rate = '3KiB'";
    let config = folder.write("c.toml", format!("[module.limits]\n{limits}"));
    let args = ["--module", &file, "--dialect", "any", "--config", &config];
    let mut process = Program::server().args(args).start().await;
    // Requests are sent until two of them fall into one second, and one into a later one.
    let start = Instant::now();
    let mut client = process.connect().await;
    let pending = tokio::spawn(async move {
        for number in 0.. {
            let path = format!("/{number:030}");
            let id = [("x-request-id", &*format!("request-{number}"))];
            assert_eq!(client.request_with("GET", &path, &id).await.status, 504);
        }
    });
    process.logged("limits.log-rate=").await;
    process.logged("log lines of the module omitted").await;
    pending.abort();
    let log = process.log().to_owned();
    for part in [
        "log of a request truncated",
        "log rate exceeded",
        "request{id=request-0 method=GET path=\"/000000000000000000000000000000\"}: module: a\\n2026-01-01T00:00:00Z  INFO",
        &format!("module=\"api@{}\"", Digest::new(&module).short()),
    ] {
        assert!(log.contains(part), "{part} is not in: {log}");
    }
    let lines = log.lines().filter(|line| line.contains("all is well")).count();
    // At most 20 fit into the bytes of a second.
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap() + 2;
    assert!((10..=20 * seconds).contains(&lines), "{lines} in {seconds} s: {log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log}");
}

/// A module cannot fill the log with empty lines either.
#[tokio::test]
async fn empty_lines_are_bounded_too() {
    let folder = Folder::new();
    let code = "(loop (call $log (i32.const 2) (i32.const 64) (i32.const 0)) br 0) unreachable";
    let code = format!("{} {code}", component::only_for(TRAP));
    let module = component::of_handler_that_logs("", &code);
    let file = folder.write("empty.wasm", &module);
    for (log, most) in [("4KiB", 30), ("0B", 0)] {
        let limits = format!("time = '50ms'\nqueue-wait = '10min'\nlog = '{log}'");
        let config = format!("[module.limits]\n{limits}");
        let config = folder.write("c.toml", config);
        let args = ["--module", &file, "--dialect", "any", "--config", &config];
        let mut process = Program::server().args(args).start().await;
        let response = process.connect().await.get(TRAP).await;
        assert_eq!(response.status, 504);
        process.logged("took longer").await;
        let lines = process.log().lines().filter(|line| line.contains("INFO request{")).count();
        assert!(lines <= most && (lines > 0) == (most > 0), "{lines}: {}", process.log());
    }
}

/// A disconnect is not a fault of the server.
#[tokio::test]
async fn a_disconnect_of_a_client_is_not_logged_as_an_error() {
    let (process, pending) = spinning(&[]).await;
    pending.abort();
    drop(pending.await);
    // The server is idle before its grace period ends.
    process.signal(Signal::TERM);
    let log = process.ended().await.stderr;
    let mut problems = log.lines().filter(|line| line.contains("ERROR") || line.contains("WARN"));
    assert!(problems.all(|line| line.contains("serving a sample")), "{log}");
}

#[tokio::test]
async fn the_cause_of_an_error_is_logged_under_the_request_id() {
    // Logs a text with a line break and an escape, then traps.
    let code = "(call $log (i32.const 3) (i32.const 64) (i32.const 12)) unreachable";
    let code = format!("{} {code}", component::only_for(TRAP));
    let component = component::of_handler_that_logs(r"one\0a\1b[31mtwo", &code);
    let folder = Folder::new();
    let module = folder.write("api.wasm", component);
    let process = Program::server().args(["--module", &module, "--dialect", "any"]).start().await;
    let mut client = process.connect().await;
    let response = client.request_with("GET", TRAP, &[("x-request-id", "my-id")]).await;
    assert_eq!((response.status.as_u16(), response.header("x-request-id")), (500, "my-id"));
    assert!(!response.text().contains("unreachable"), "{}", response.text());
    process.signal(Signal::TERM);
    let log = process.ended().await.stderr;
    let line = |wanted: &str| log.lines().find(|line| line.contains(wanted)).unwrap_or_default();
    let logged = line("one");
    assert!(logged.contains("id=my-id") && logged.contains(r"one\n\u{1b}[31mtwo"), "{log}");
    let trap = line("the module trapped");
    assert!(trap.contains("id=my-id") && trap.contains("unreachable"), "{log}");
}

/// A panic needs no grant to be reported: the guest has none.
#[tokio::test]
async fn a_panic_is_logged_with_its_message_and_location() {
    let folder = Folder::new();
    folder.write("guest.wasm", WASI_GUEST);
    let settings = "[[extension]]\nname = 'guest'\nmodule = 'guest.wasm'\nwasi = true\n";
    let config = folder.write("rest.toml", format!("{settings}limits.queue-wait = '10min'\n"));
    let mut process = Program::server().args(["--config", &config]).start().await;
    let mut client = process.connect().await;
    let with_id = [("x-request-id", "my-id")];
    let response = client.request_with("GET", "/ext/guest/panic/a%0Ab", &with_id).await;
    assert_eq!(response.status, 500);
    assert!(!response.text().contains("lost"), "{}", response.text());
    process.logged("the module trapped").await;
    let log = process.log();
    let trap = log.lines().find(|line| line.contains("the module trapped")).unwrap_or_default();
    let cause = r"trapped: panicked at tests/guests/wasi/src/lib.rs:";
    assert!(trap.contains("id=my-id") && trap.contains(cause), "{trap}");
    assert!(trap.contains(r": lost\\n/panic/a%0Ab; in "), "{trap}");
}

#[tokio::test]
async fn a_module_that_fails_often_does_not_flood_the_log() {
    let folder = Folder::new();
    let code = format!("{} unreachable", component::only_for(TRAP));
    let module = folder.write("api.wasm", component::of_handler(&code));
    let args = ["--module", &module, "--dialect", "any"];
    let mut process = Program::server().args(args).start().await;
    let mut client = process.connect().await;
    let start = Instant::now();
    let mut requests = 0;
    let failing = async {
        loop {
            client.get(TRAP).await;
            requests += 1;
        }
    };
    let logged = async {
        process.logged("log lines of failed requests limited").await;
        process.logged("log lines of failed requests omitted").await;
    };
    tokio::select! {
        () = logged => {}
        () = failing => {}
    }
    let log = process.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let (_, limit) = log.split_once("limited limit=").unwrap();
    let limit: usize = limit.lines().next().unwrap().parse().unwrap();
    // In the seconds that have begun, one of them before the test.
    let seconds = 2 + usize::try_from(start.elapsed().as_secs()).unwrap();
    assert!(count(" request failed ") <= limit * seconds, "{log}");
    assert!(count(" request failed ") <= requests, "{log}");
}

/// The cause that a module reports is bounded, and has no effect without a trap.
#[tokio::test]
async fn a_reported_cause_is_truncated_and_needs_a_trap() {
    let folder = Folder::new();
    for (then, status) in
        [("unreachable", 500), ("(i32.store16 (i32.const 0) (i32.const 204)) i32.const 0", 204)]
    {
        let guard = component::only_for(TRAP);
        let code = format!("{guard} (call $report (i32.const 64) (i32.const 3000)) {then}");
        let module = component::of_handler_that_reports(&"a".repeat(3_000), &code);
        let module = folder.write("api.wasm", module);
        let args = ["--module", &module, "--dialect", "any"];
        let process = Program::server().args(args).start().await;
        assert_eq!(process.connect().await.get(TRAP).await.status, status);
        process.signal(Signal::TERM);
        let log = process.ended().await.stderr;
        let cause = format!("the module trapped: {}; in ", "a".repeat(512));
        assert_eq!(log.contains(&cause), status == 500, "{log}");
        assert_eq!(log.contains("aaaa"), status == 500, "{log}");
    }
}

#[tokio::test]
async fn a_closed_log_does_not_stop_the_server() {
    let folder = Folder::new();
    let module = folder.write("api.wasm", component::that_traps_later("1"));
    let args = ["--module", &module, "--dialect", "any"];
    let mut process = Program::server().args(args).start().await;
    process.close_log();
    let mut client = process.connect().await;
    for _ in 0..3 {
        assert_eq!(client.get(TRAP).await.status, 500);
    }
    process.signal(Signal::TERM);
    assert_eq!(process.child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn messages_are_one_line_for_any_file_name() {
    let ended = Program::new(["--relayer-config", "/nowhere/a\nb\u{1b}[31m.toml"]).run().await;
    check_failure(&ended, 2, r"relayer configuration /nowhere/a\nb\u{1b}[31m.toml: cannot be read");
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
    let mut response = Vec::new();
    let acknowledged = ping(1, count);
    while !response.windows(acknowledged.len()).any(|part| part == acknowledged) {
        let read = within("the acknowledgement", stream.read_buf(&mut response)).await;
        assert!(read.unwrap() > 0, "the server closed the connection: {response:?}");
    }
}

#[tokio::test]
async fn warnings_of_the_http_library_are_rate_limited() {
    const COUNT: u64 = 2000;
    let start = Instant::now();
    let process = Program::server().start().await;
    for _ in 0..3 {
        provoke_warnings(process.address(), COUNT).await;
    }
    process.signal(Signal::TERM);
    let ended = process.ended().await;
    let of_h2: Vec<_> = ended.stderr.lines().filter(|line| line.contains("h2")).collect();
    // Each second has 20 lines, a note that there are more, and one with the number of
    // omitted lines.
    let most = (start.elapsed().as_secs() + 2) * 22;
    assert!((2..=most).contains(&(of_h2.len() as u64)), "{} lines: {of_h2:#?}", of_h2.len());
    assert!(of_h2.iter().any(|line| line.contains("recv PING ack")), "{of_h2:#?}");
    let note = "h2 logs more than 20 lines a second; omitting lines";
    assert!(of_h2.iter().any(|line| line.ends_with(note)), "{of_h2:#?}");
}

#[tokio::test]
async fn each_line_of_a_json_log_is_an_object() {
    let folder = Folder::new();
    let traps = format!("{} unreachable", component::only_for("/a%20path"));
    let file = folder.write("traps.wasm", component::of_handler(&traps));
    let args = ["--module", &file, "--dialect", "any", "--log-format", "json"];
    let mut process = Program::server().args(args).start().await;
    assert_eq!(process.connect().await.get("/a%20path").await.status, 500);
    process.logged("request failed").await;
    let ended = process.stop().await;
    let lines = ended.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    for line in &lines {
        for field in ["timestamp", "level", "message", "target"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
    }
    let failed = lines.iter().find(|line| line["message"] == "request failed").unwrap();
    assert_eq!((&failed["level"], &failed["span"]["path"]), (&json!("ERROR"), &json!("/a%20path")));
    assert!(failed["error"].as_str().unwrap().contains("unreachable"), "{failed}");
    assert!(failed["span"]["id"].is_string(), "{failed}");
}

#[tokio::test]
async fn an_unknown_log_format_is_refused() {
    let ended = Program::new(["serve", "--log-format", "xml"]).run().await;
    check_failure(&ended, 2, "--log-format: unknown variant `xml`, expected `text` or `json`");
}
