//! Does the access log have a line for each request, for hostile ones, too?

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use relayer_rest_tests::client::{self, Client};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::wait::{until, until_async};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::cli::check_failure;

/// Starts a server with these settings of the access log, and with these after them.
async fn serving(files: &Folder, log: &str, more: &str) -> Serving {
    let text = format!("[access-log]\nfile = 'access.log'\n{log}\n{more}");
    let settings = files.write("c.toml", text);
    Program::new(["--listen", "127.0.0.1:0", "--config", &settings]).start().await
}

/// Returns a request whose response ends the connection.
fn request(target: &str, headers: &str) -> String {
    super::request(target, &format!("connection: close\r\n{headers}"))
}

/// Sends 1,000 requests, and returns the responses.
async fn thousand(address: SocketAddr) -> String {
    let requests = super::request("/version", "").repeat(999) + &request("/version", "");
    raw(address, &requests).await
}

async fn raw(address: SocketAddr, request: &str) -> String {
    client::raw(address, request.as_bytes()).await
}

/// Waits for this number of lines of the log.
async fn lines(files: &Folder, count: usize) -> Vec<String> {
    let path = files.join("access.log");
    let mut lines = Vec::new();
    until("the lines are written", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        lines = text.lines().map(str::to_owned).collect();
        lines.len() >= count
    })
    .await;
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

async fn objects(files: &Folder, count: usize) -> Vec<Value> {
    lines(files, count).await.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn lines_have_the_combined_format() {
    let files = Folder::new();
    let serving = serving(&files, "", "").await;
    let address = serving.address();
    let headers = "user-agent: a \"b\" \\ \u{e9}\r\nreferer: http://r/\r\n";
    raw(address, &request("/version?a=%22", headers)).await;
    raw(address, "HEAD /version HTTP/1.0\r\n\r\n").await;
    raw(address, &request("/a\"b", "")).await;
    let lines = lines(&files, 3).await;
    let rest = |line: &str| {
        let (start, rest) = line.split_once("] ").unwrap();
        let (client, time) = start.split_once(" - - [").unwrap();
        assert_eq!(client, "127.0.0.1");
        let shape: String =
            time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert!(
            shape.len() == 26
                && shape.starts_with("00/")
                && shape.ends_with("/0000:00:00:00 +0000"),
            "{time}"
        );
        rest.to_owned()
    };
    let first = rest(&lines[0]);
    let (head, tail) = first.split_once("\" 200 ").unwrap();
    assert_eq!(head, "\"GET /version?a=%22 HTTP/1.1");
    let (length, tail) = tail.split_once(' ').unwrap();
    assert!(length.parse::<usize>().unwrap() > 10);
    assert_eq!(tail, r#""http://r/" "a \x22b\x22 \x5C \xC3\xA9""#);
    assert_eq!(rest(&lines[1]), r#""HEAD /version HTTP/1.0" 200 0 "-" "-""#);
    assert!(rest(&lines[2]).starts_with(r#""GET /a\x22b HTTP/1.1" 404 "#), "{}", lines[2]);
    serving.stop().await;
}

#[tokio::test]
async fn objects_have_mount_route_module_and_cache() {
    let files = Folder::new();
    let serving = serving(
        &files,
        "format = 'json'",
        "[http]\nhosts = ['x']\n[[extension]]\nname = 'health'\n",
    )
    .await;
    let address = serving.address();
    let response = raw(address, &request("/chain/a?b", "x-request-id: r1\r\n")).await;
    raw(address, &request("/chain/a?b", "")).await;
    raw(address, &request("/ext/health/livez", "")).await;
    raw(address, "GET /version HTTP/1.1\r\nhost: other\r\nconnection: close\r\n\r\n").await;
    let objects = objects(&files, 4).await;
    let module = response.lines().find_map(|line| line.strip_prefix("x-relayer-module: "));
    let fields = |object: &Value, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| object[name].clone()).collect()
    };
    let first = fields(
        &objects[0],
        &["id", "client", "method", "target", "version", "host", "tls", "user_agent"],
    );
    let wanted = ["r1", "127.0.0.1", "GET", "/chain/a?b", "HTTP/1.1", "x"].map(Value::from);
    assert_eq!(first[..6], wanted);
    assert_eq!(first[6..], [json!(false), Value::Null]);
    let names = ["mount", "module", "route", "cache"];
    assert_eq!(
        fields(&objects[0], &names),
        [json!("/"), json!(module.unwrap()), json!("/chain/{id}"), json!("miss")]
    );
    assert_eq!(objects[1]["cache"], "hit");
    assert_eq!(objects[1]["route"], "/chain/{id}");
    assert_eq!(objects[1]["status"], objects[0]["status"]);
    assert_eq!(fields(&objects[2], &["mount", "route"]), ["/ext/health", "/livez"]);
    let refused = &objects[3];
    assert_eq!((&refused["status"], &refused["mount"]), (&json!(421), &Value::Null));
    for object in &objects {
        assert!(object["duration_seconds"].as_f64().unwrap() > 0.0, "{object}");
        assert!(object["bytes"].as_u64().unwrap() > 0, "{object}");
        assert!(object["time"].as_str().unwrap().ends_with('Z'), "{object}");
    }
    serving.stop().await;
}

/// In HTTP/2, and in a request to a proxy, the host is a part of the target.
#[tokio::test]
async fn targets_are_paths_and_the_host_is_their_authority() {
    let files = Folder::new();
    let serving = serving(&files, "format = 'json'", "").await;
    let mut client = Client::http2(serving.address()).await;
    assert_eq!(client.get("/version?a=b").await.status, 200);
    let request = "GET http://a:1/version?a=b HTTP/1.1\r\nhost: b\r\nconnection: close\r\n\r\n";
    assert!(raw(serving.address(), request).await.starts_with("HTTP/1.1 200 OK"));
    let objects = objects(&files, 2).await;
    for (object, version, host) in
        [(&objects[0], "HTTP/2.0", "localhost"), (&objects[1], "HTTP/1.1", "a:1")]
    {
        assert_eq!(object["target"], "/version?a=b", "{object}");
        assert_eq!((&object["version"], &object["host"]), (&json!(version), &json!(host)));
    }
    serving.stop().await;
}

/// The headers and targets of clients do not determine the length of a line.
#[tokio::test]
async fn long_values_are_truncated() {
    let headers =
        ["user-agent", "referer"].map(|name| format!("{name}: {}\r\n", "\u{e9}".repeat(5_000)));
    let host = "h".repeat(5_000);
    let target = format!("/version?{}", "q".repeat(5_000));
    let request = format!(
        "GET {target} HTTP/1.1\r\nhost: {host}\r\n{}connection: close\r\n\r\n",
        headers.concat()
    );
    for format in ["combined", "json"] {
        let files = Folder::new();
        let serving = serving(&files, &format!("format = '{format}'"), "").await;
        assert!(raw(serving.address(), &request).await.starts_with("HTTP/1.1 200 OK"));
        let line = &lines(&files, 1).await[0];
        assert!(line.len() < 10 << 10, "{}", line.len());
        let shown = |text: &str| line.contains(&format!("{text}…"));
        assert!(shown("qqq") && shown(if format == "json" { "é" } else { "\\xC3\\xA9" }), "{line}");
        assert_eq!(line.matches('…').count(), if format == "json" { 4 } else { 3 });
        serving.stop().await;
    }
}

#[tokio::test]
async fn a_cancelled_request_has_the_status_499() {
    let files = Folder::new();
    let module = files.write("spin.wasm", component::that_spins_on_spin());
    let extension = format!(
        "[[extension]]\nname = 'a'\nmodule = '{module}'\n[extension.limits]\ntime = '60s'\n"
    );
    let serving = serving(&files, "format = 'json'", &extension).await;
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    stream.write_all(request("/ext/a/spin", "").as_bytes()).unwrap();
    drop(stream);
    let objects = objects(&files, 1).await;
    assert_eq!(
        (&objects[0]["status"], &objects[0]["target"]),
        (&json!(499), &json!("/ext/a/spin"))
    );
    serving.stop().await;
}

#[tokio::test]
async fn a_request_that_is_dropped_at_the_end_of_grace_has_the_status_499() {
    let files = Folder::new();
    let module = files.write("spin.wasm", component::that_spins_on_spin());
    let extension = format!(
        "[server]\ngrace = '0s'\n[[extension]]\nname = 'a'\nmodule = '{module}'\n[extension.limits]\ntime = '60s'\n"
    );
    let serving = serving(&files, "format = 'json'", &extension).await;
    let mut pending = TcpStream::connect(serving.address()).unwrap();
    pending.write_all(request("/ext/a/spin", "").as_bytes()).unwrap();
    let runs = async || {
        let status = serving.control(&["status", "--json"]).await.stdout;
        let status: Value = serde_json::from_str(&status).unwrap();
        let mounts = status["mounts"].as_array().unwrap();
        mounts.iter().any(|mount| mount["mount"] == "/ext/a" && mount["module"]["runs"] == 1)
    };
    until_async("the module runs", runs).await;
    serving.stop().await;
    let object = &objects(&files, 1).await[0];
    assert_eq!((&object["status"], &object["target"]), (&json!(499), &json!("/ext/a/spin")));
}

#[tokio::test]
async fn the_client_is_the_one_of_the_proxy_protocol() {
    let files = Folder::new();
    let settings = files.write(
        "c.toml",
        "[access-log]\nfile = 'access.log'\n[[listen]]\naddress = '127.0.0.1:0'\nproxy-protocol = true\n[http]\ntrusted-proxies = ['127.0.0.0/8']\n",
    );
    let serving = Program::new(["--config", &settings]).start().await;
    let proxied = format!("PROXY TCP6 2001:db8::1 ::1 4000 3000\r\n{}", request("/version", ""));
    raw(serving.address(), &proxied).await;
    assert!(lines(&files, 1).await[0].starts_with("2001:db8::1 - - ["));
    serving.stop().await;
}

#[tokio::test]
async fn a_reload_opens_the_file_again() {
    let files = Folder::new();
    let serving = serving(&files, "", "").await;
    raw(serving.address(), &request("/version", "")).await;
    lines(&files, 1).await;
    let path = files.join("access.log");
    fs::rename(&path, files.join("access.log.1")).unwrap();
    // The command returns when the file is open; a signal would not tell.
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    raw(serving.address(), &request("/chains", "")).await;
    assert!(lines(&files, 1).await[0].contains("\"GET /chains "));
    // A file that cannot be opened does not replace the current one.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let ended = serving.control(&["reload"]).await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!([ended.stdout, ended.stderr].concat().contains("access-log.file: "));
    assert!(raw(serving.address(), &request("/version", "")).await.contains(" 200 OK"));
    serving.stop().await;
}

#[tokio::test]
async fn a_sample_has_some_of_the_requests() {
    let files = Folder::new();
    let serving = serving(&files, "sample = 2", "").await;
    let responses = thousand(serving.address()).await;
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 1000);
    serving.stop().await;
    let log = fs::read_to_string(files.join("access.log")).unwrap();
    let count = log.lines().count();
    assert!((200..800).contains(&count), "{count}");
}

/// Makes the log a pipe. The caller has both ends, so that neither open waits.
fn pipe(files: &Folder) -> fs::File {
    let path = files.join("access.log");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::File::options().read(true).write(true).open(&path).unwrap()
}

/// A pipe holds 64 KiB: fewer than these lines.
#[tokio::test]
async fn a_full_pipe_delays_neither_a_response_nor_a_reload() {
    let files = Folder::new();
    let pipe = pipe(&files);
    let serving = serving(&files, "format = 'json'", "").await;
    let responses = thousand(serving.address()).await;
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 1000);
    let reload = serving.control(&["reload"]).await;
    assert_eq!(reload.status, Some(0), "{reload:?}");
    // The waiting lines are written when the pipe is read.
    let lines = BufReader::new(pipe).lines().take(1000);
    assert!(lines.map(Result::unwrap).all(|line| line.contains("/version")));
    serving.stop().await;
}

/// 16 MiB of lines wait at most, and each lost line is reported once.
#[tokio::test]
async fn lost_lines_are_reported_until_the_pipe_is_read() {
    const COUNT: usize = 3_500;
    let files = Folder::new();
    let pipe = pipe(&files);
    let mut serving = serving(&files, "", "").await;
    let mut client = serving.connect().await;
    let value = "v".repeat(2 << 10);
    let target = format!("/version?{value}");
    for _ in 0..COUNT {
        let headers = [("user-agent", &*value), ("referer", &*value)];
        assert_eq!(client.request_with("GET", &target, &headers).await.status, 200);
    }
    serving.logged("lines of the access log lost").await;
    let mut lines = BufReader::new(pipe).lines().map(Result::unwrap);
    let mut written = lines.by_ref().take(100).count();
    // Now there is room for another line, which comes last.
    assert_eq!(client.get("/chains").await.status, 200);
    written += lines.take_while(|line| !line.contains("GET /chains ")).count();
    assert!((2_500..COUNT).contains(&written), "{written}");
    let ended = serving.stop().await;
    let lost: Vec<usize> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("lines of the access log lost"))
        .map(|line| line.rsplit_once("lost=").unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(lost.iter().sum::<usize>(), COUNT - written, "{lost:?}");
}

/// Streams of a service of systemd are sockets.
#[tokio::test]
async fn a_stream_that_is_a_socket_has_the_lines() {
    for stream in ["stdout", "stderr"] {
        let files = Folder::new();
        let settings = files.write("c.toml", format!("[access-log]\nfile = '/dev/{stream}'\n"));
        let program = Program::new(["--listen", "127.0.0.1:0", "--config", &settings]);
        let (reader, writer) = UnixStream::pair().unwrap();
        let mut command = program.command();
        command.stdout(OwnedFd::from(writer.try_clone().unwrap())).stderr(OwnedFd::from(writer));
        let mut child = command.spawn().unwrap();
        // The command has its streams, too.
        drop(command);
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.strip_prefix("http://").map(str::to_owned));
        let address = address.unwrap().parse().unwrap();
        assert!(raw(address, &request("/version", "")).await.contains(" 200 OK"));
        assert!(lines.any(|line| line.contains("\"GET /version HTTP/1.1\" 200 ")), "{stream}");
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_with_its_remedy() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[access-log]\nfile = '/dev/full'\n");
    let mut serving =
        Program::new(["--listen", "127.0.0.1:0", "--config", &settings]).start().await;
    assert!(thousand(serving.address()).await.contains(" 200 OK"));
    serving.logged("lines of the access log not written; make room on its disk").await;
    let line = serving.log().lines().last().unwrap();
    assert!(line.contains("No space left on device") && line.contains(" lost="), "{line}");
    // No more than one warning a second.
    let ended = serving.stop().await;
    assert!(ended.stderr.matches("not written").count() < 100, "{}", ended.stderr);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named_with_its_remedy() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[access-log]\nfile = 'missing/access.log'\n");
    let output = Program::new(["--listen", "127.0.0.1:0", "--config", &settings]).run().await;
    let start = format!("access-log.file: {}", files.join("missing/access.log").display());
    check_failure(&output, 2, &start);
    assert!(output.stderr.ends_with("check the path and the permissions of its folder\n"));
}
