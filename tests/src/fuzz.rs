//! The fuzz targets, which process arbitrary bytes: for fuzzing, and as regression tests
//! for earlier findings.
//!
//! Each target panics if it finds a bug, and has a folder of inputs in `fuzz/corpus/`.

pub mod files;
pub mod sections;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use relayer_rest_api::Dialect;
use relayer_rest_host::HttpLimits;
use relayer_rest_host::config::{Config, Layers, ListenAddress, ListenConfig, Origin, Setting};
use relayer_rest_host::conformance::{self, Reference};
use relayer_rest_host::control::{ControlServer, ControlSocket};
use relayer_rest_host::module::{DEFAULT_MODULE, Limits, Module, RunPermit};
use relayer_rest_host::registry::Mount;
use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_host::state::{StateReader, parse_metrics, read_response};
use relayer_rest_sdk::Request;
use relayer_rest_sdk::testing::FakeHost;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::component::{with_document, with_response};
use crate::heap::Heap;
use crate::http2 as frames;
use crate::server::{TestServer, engine, patient, request};
use crate::wait::until;

/// Longer than a server may wait for a client, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A function that processes some bytes.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders.
pub const TARGETS: [(&str, Target); 15] = [
    ("config", config),
    ("setting", setting),
    ("upstream", upstream),
    ("router", router),
    ("request", http_request),
    ("proxy_header", proxy_header),
    ("http2", http2),
    ("control", control),
    ("component", component),
    ("openapi", openapi),
    ("capsule", files::capsule),
    ("changes", files::changes),
    ("manifest", files::manifest),
    ("sections", sections::sections),
    ("generated", sections::generated),
];

/// Parses settings, and a relayer's configuration.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let check = |message: String| {
        assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
    };
    if let Err(problem) = Config::parse(text) {
        check(problem.to_string());
    }
    if let Err(problem) = HermesConfig::parse(text) {
        check(problem.to_string());
    }
}

/// Sets each setting to a text, as a variable of the environment does.
pub fn setting(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let defaults = Layers::default().read().unwrap();
    for Setting { key, .. } in defaults.list() {
        let mut layers = Layers::default();
        let origin = Origin::Option("--option");
        let set = layers.set(&key, text, origin);
        if let Err(error) = set.and_then(|()| layers.read().map(drop)) {
            check_message(&error.to_string());
        }
    }
}

/// Reads a relayer's responses, and serves the state from them.
pub fn upstream(data: &[u8]) {
    for endpoint in ENDPOINTS {
        match read_response(endpoint, data) {
            Ok(publisher) => serve_upstream(&publisher.reader()),
            Err(error) => check_message(&error.to_string()),
        }
    }
    if let Err(error) = parse_metrics(data) {
        check_message(&error.to_string());
    }
}

/// The endpoints of a relayer whose responses are read, and the state file.
pub const ENDPOINTS: [&str; 5] = ["/version", "/chains", "/chain", "/state", "file"];

/// The memory for reading a response may be this many times its size, …
const MEMORY_FACTOR: usize = 20;

/// … plus this many bytes.
const MEMORY_BASE: usize = 1 << 20;

/// Checks the peak memory for reading a response, whether valid or not.
pub fn upstream_memory(heap: &Heap, data: &[u8]) {
    for endpoint in ENDPOINTS {
        let peak = heap.peak_of(|| drop(read_response(endpoint, data)));
        let most = MEMORY_FACTOR * data.len() + MEMORY_BASE;
        assert!(peak <= most, "{endpoint}: {peak} bytes for a response of {}", data.len());
    }
    let peak = heap.peak_of(|| drop(parse_metrics(data)));
    let most = MEMORY_FACTOR * data.len() + MEMORY_BASE;
    assert!(peak <= most, "{peak} bytes for metrics of {}", data.len());
}

/// Checks that a message about a response is one line of bounded length.
fn check_message(message: &str) {
    let prints = |character: char| {
        matches!(character, '\'' | '"' | '\\') || character.escape_debug().count() == 1
    };
    assert!(message.len() < 16_000 && message.chars().all(prints), "{message:?}");
}

fn serve_upstream(reader: &StateReader) {
    let snapshot = reader.snapshot();
    for path in ["/version", "/chains", "/state"] {
        check_json(&response(path, reader), path);
    }
    let ids = snapshot.chain_ids().value().as_ref().map_or(&[][..], |ids| ids);
    // Every byte is percent-encoded, as by a client that assumes nothing about it.
    for id in ids.iter().take(10) {
        let mut path = "/chain/".to_owned();
        for byte in id.as_str().bytes() {
            write!(path, "%{byte:02X}").unwrap();
        }
        if path.len() < 8000 {
            check_json(&response(&path, reader), &path);
        }
    }
}

/// Calls the module's router with a method and a path, separated by a line end.
pub fn router(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (method, path) = text.split_once('\n').unwrap_or(("GET", text));
    let host = FakeHost::not_ready("\u{0}\"");
    let request = Request::new(method, path);
    for dialect in [Dialect::V0_7, Dialect::V1_13] {
        let response = relayer_rest_api::handle_in(dialect, &host, &request);
        assert!((200..600).contains(&response.status), "{}", response.status);
        assert!(response.status != 200 || method == "GET", "{method} {path}");
        if !response.body.is_empty() {
            check_json(&response.body, path);
        }
    }
}

/// Sends bytes to the server as an HTTP/1.1 client.
pub fn http_request(data: &[u8]) {
    static SERVER: LazyLock<(Runtime, SocketAddr)> = LazyLock::new(|| {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(TestServer::start());
        let address = server.address;
        // It serves until the process ends.
        std::mem::forget(server);
        (runtime, address)
    });
    send(SERVER.1, data);
}

/// Sends bytes to a listener with the PROXY protocol.
pub fn proxy_header(data: &[u8]) {
    static SERVER: LazyLock<(Runtime, SocketAddr)> = LazyLock::new(|| {
        let runtime = Runtime::new().unwrap();
        let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        let http = HttpLimits { trusted_proxies, ..HttpLimits::default() };
        let mut listen = ListenConfig::from("127.0.0.1:0".parse::<ListenAddress>().unwrap());
        listen.proxy_protocol = true;
        let server = TestServer::builder().http(http).listen(listen);
        let server = runtime.block_on(server.start());
        let address = server.address;
        std::mem::forget(server);
        (runtime, address)
    });
    send(SERVER.1, data);
}

/// Sends HTTP/2 frames after the preface. Each is made from its type, its flags, a stream
/// and a length, and that many bytes. Some types stand for SETTINGS with a
/// closed window, for the HEADERS of a valid request, or for raw bytes.
pub fn http2(data: &[u8]) {
    static SERVER: LazyLock<(Runtime, TestServer)> = LazyLock::new(|| {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(TestServer::start());
        (runtime, server)
    });
    let (runtime, server) = &*SERVER;
    let mut bytes = frames::PREFACE.to_vec();
    let mut rest = data;
    while let [kind, flags, stream, length, more @ ..] = rest {
        let (payload, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        let stream = u32::from(*stream);
        bytes.extend(match (kind % 16, payload) {
            (10, _) => frames::closed_window(),
            (11, _) => {
                let path =
                    format!("/{}?{stream}", ["state", "version", "chains"][payload.len() % 3]);
                frames::frame(frames::HEADERS, flags | 4, stream, &frames::request("GET", &path))
            }
            (12, _) => {
                frames::frame(frames::HEADERS, 5, stream, &frames::request("HEAD", "/version"))
            }
            (13..=15, garbage) => garbage.to_vec(),
            (kind, payload) => frames::frame(kind, *flags, stream, payload),
        });
    }
    send(server.address, &bytes);
    runtime.block_on(async {
        let mut client = Client::http2(server.address).await;
        assert_eq!(client.get("/version").await.status, 200);
        drop(client);
        let is_released = || server.connections.status().unsent == 0;
        until("all memory is released", is_released).await;
    });
}

/// Sends bytes to the control socket.
pub fn control(data: &[u8]) {
    static SERVER: LazyLock<(Runtime, PathBuf)> = LazyLock::new(|| {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap().keep();
        let path = folder.join("c.sock");
        runtime.block_on(async {
            let server = TestServer::start().await;
            let socket = ControlSocket::bind(&path).unwrap();
            let state = server.publisher.reader();
            let control =
                ControlServer::new(Arc::clone(&server.registry), state).with_socket(socket);
            tokio::spawn(control.serve());
            std::mem::forget(server);
        });
        (runtime, path)
    });
    let stream = UnixStream::connect(&SERVER.1).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may close the connection before it has read all bytes.
    drop((&stream).write_all(data));
    drop(stream.shutdown(Shutdown::Write));
    check_response(&stream);
}

/// Loads and probes a component: the embedded one with changed bytes (each change has
/// three bytes of offset and one of value), or one that consists of exactly these bytes.
pub fn component(data: &[u8]) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let bytes = if data.starts_with(b"\0asm") {
        data.to_vec()
    } else {
        let mut bytes = DEFAULT_MODULE.to_vec();
        for change in data.as_chunks::<4>().0 {
            let place = u32::from_be_bytes([0, change[0], change[1], change[2]]) as usize;
            let place = place % bytes.len();
            bytes[place] = change[3];
        }
        bytes
    };
    let limits = Limits { time: Duration::from_millis(50), ..patient() };
    match Module::from_bytes(&engine(&limits), "fuzzed", &bytes) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(module) => {
            let reference = Reference::V0_7(&EMBEDDED);
            drop(RUNTIME.block_on(conformance::probe(&module, reference, None)));
        }
    }
}

/// Loads a module with an OpenAPI document, and serves the document.
pub fn openapi(data: &[u8]) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    static COMPONENT: LazyLock<Vec<u8>> = LazyLock::new(|| with_response(204, "a", b"b"));
    let bytes = with_document(COMPONENT.clone(), data);
    let module = match Module::from_bytes(&engine(&patient()), "fuzzed", &bytes) {
        Err(error) => return check_message(&error.to_string()),
        Ok(module) => module.named("fuzzed"),
    };
    let openapi = module.openapi().unwrap();
    for route in openapi.routes() {
        assert!(openapi.route(&route.with("x")).is_some(), "{}", route.path());
    }
    RUNTIME.block_on(async {
        let mount = Mount::extension("/ext/fuzzed".parse().unwrap(), module);
        let server = TestServer::builder().extension(mount).start().await;
        let response = server.get("/openapi.json").await;
        assert_eq!(response.status, 200);
        serde_json::from_slice::<Value>(&response.body).unwrap();
    });
}

static EMBEDDED: LazyLock<Module> =
    LazyLock::new(|| Module::embedded(&engine(&patient())).unwrap());

/// Returns the body of the embedded module's response.
fn response(path: &str, state: &StateReader) -> Vec<u8> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let module = &*EMBEDDED;
    let response = RUNTIME.block_on(async {
        RunPermit::acquire(module)
            .await
            .unwrap()
            .execute(request("GET", path, &[]), state.snapshot())
            .await
    });
    response.unwrap_or_else(|error| panic!("{path}: {error}")).response.into_body().to_vec()
}

#[track_caller]
fn check_json(body: &[u8], path: &str) {
    if let Err(error) = serde_json::from_slice::<Value>(body) {
        panic!("{path}: {error}: {}", body.escape_ascii());
    }
}

/// Sends bytes to a server, and checks its response.
fn send(address: SocketAddr, bytes: &[u8]) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may close the connection before it has read all bytes.
    drop((&stream).write_all(bytes));
    drop(stream.shutdown(Shutdown::Write));
    check_response(&stream);
}

/// Reads a response to its end: HTTP/1, HTTP/2, or none.
#[track_caller]
fn check_response(mut stream: impl Read) {
    let mut response = Vec::new();
    if let Err(error) = stream.read_to_end(&mut response) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it hangs");
    }
    let is_http1 = response.starts_with(b"HTTP/1.");
    // A server's first frame is SETTINGS.
    let is_http2 = response.get(3) == Some(&4);
    assert!(response.is_empty() || is_http1 || is_http2, "{}", response.escape_ascii());
    assert!(!response.starts_with(b"HTTP/1.1 5"), "{}", response.escape_ascii());
}
