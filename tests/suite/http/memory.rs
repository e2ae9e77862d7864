//! Is the memory that clients can occupy bounded, and released?

use std::fs;
use std::time::Duration;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::{until, until_async};
use relayer_rest_tests::{component, http2};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// HTTP/2 connections, each with the maximum number of requests, all for distinct bodies
/// that no client reads. The server is a separate process, whose memory is measured.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_connections_take_little_memory_beyond_the_limit() {
    const MIB: u64 = 1 << 20;
    const CONNECTIONS: u64 = 1_024;
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let folder = Folder::new();
    folder.write("large.wasm", component::of_response(200, &[], &vec![b'a'; 256 << 10]));
    // A busy machine would run more modules at once, whose memory is not that of connections.
    let text = "[module]\nfile = 'large.wasm'\ndialect = 'any'\n[module.limits]\nresponse-cache = '1MiB'\nconcurrency = 8\n[http]\nunsent = '64MiB'\nidle = '1h'\nstalled = '1h'\n";
    let settings = folder.write("settings.toml", text);
    let mut serving = Program::server().args(["--config", &settings]).start().await;
    serving.close_log();
    let address = serving.address();
    let process = serving.id();
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let mut most = 0;
    let mut hostile = Vec::new();
    for connection in 0..CONNECTIONS {
        let paths = (0..100).map(|path| format!("/{connection}/{path}"));
        hostile.push(http2::stalled(address, paths).await);
        most = most.max(resident());
    }
    let control = serving.control_client();
    let unsent = async || control.status().await.unwrap().connections.unwrap().unsent;
    until_async("half of the memory is held", async || unsent().await > 32 * MIB).await;
    let runs = async || control.status().await.unwrap().mounts[0].module().unwrap().runs;
    let mut known = 0;
    while known != runs().await {
        known = runs().await;
        for _ in 0..100 {
            most = most.max(resident());
            sleep(Duration::from_millis(5)).await;
        }
    }
    let status = control.status().await.unwrap();
    let unsent = status.connections.unwrap().unsent;
    assert!(unsent > 32 * MIB && unsent <= 64 * MIB, "{status:?}");
    // The process itself, and the buffers of its connections: 150 MB in a release build,
    // and more in a build whose futures are not optimised. Without the limit, it would be
    // 26 GB.
    println!("{most} bytes at most");
    assert!(most <= 64 * MIB + 225_000_000, "{most} bytes");
}

/// The number of clients. Each requests a distinct body, of which it reads only the
/// start.
const CLIENTS: usize = 64;
const BODY: usize = 6 << 20;

/// Returns the resident bytes of a process.
fn resident(process: i32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn memory_is_returned_after_an_attack() {
    let folder = Folder::new();
    // A preflight does not accept a large body in each response.
    let guard = component::only_for(component::TRAP);
    let large = component::of_handler(&format!(
        "{guard} (drop (memory.grow (i32.const 100)))
         (i32.store16 (i32.const 0) (i32.const 200))
         (i32.store (i32.const 12) (i32.const 131072))
         (i32.store (i32.const 16) (i32.const {BODY})) i32.const 0"
    ));
    let module = folder.write("large.wasm", large);
    // On a busy machine, no client is closed or refused before all have their responses.
    let text = "[module.limits]\nqueue-wait = '1h'\n[http]\nidle = '1h'\nstalled = '1h'\n";
    let settings = folder.write("settings.toml", text);
    let args = ["--module", &module, "--dialect", "any", "--config", &settings];
    let serving = Program::server().args(args).start().await;
    let before = resident(serving.id());

    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = TcpStream::connect(serving.address()).await.unwrap();
        let request = format!("GET /{number:030} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    for client in &mut clients {
        client.read_exact(&mut [0; 64]).await.unwrap();
    }
    let peak = resident(serving.id());
    assert!(peak > 4 * before, "{before} {peak}");
    drop(clients);

    let is_returned = || resident(serving.id()) <= 2 * before;
    until(&format!("{peak} bytes shrink to twice {before}"), is_returned).await;
}
