//! Does a server release the memory that it took during an attack?

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use relayer_rest_tests::command::serve;
use relayer_rest_tests::component;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PROGRAM: &str = env!("CARGO_BIN_EXE_relayer-rest-under-test");

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
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("large.wasm");
    fs::write(&module, component::of_response(200, &[], &vec![b'a'; BODY])).unwrap();
    let module = module.to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--module", module, "--dialect", "any"];
    let serving = serve(Path::new(PROGRAM), &listen).await;
    let before = resident(serving.id());

    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = TcpStream::connect(serving.address()).await.unwrap();
        let request = format!("GET /{number} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    for client in &mut clients {
        client.read_exact(&mut [0; 64]).await.unwrap();
    }
    let peak = resident(serving.id());
    assert!(peak > 4 * before, "{before} {peak}");
    drop(clients);

    let start = Instant::now();
    loop {
        let after = resident(serving.id());
        if after <= 2 * before {
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(3), "{before} {peak} {after}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
