//! Are clients that wait, and have pipelined bytes, forgotten when they leave?

use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request whose client waits, with these bytes after it.
async fn waiting(server: &TestServer, header: &str, pipelined: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let etag = server.get("/state").await.header("etag").to_owned();
    let head = format!("GET /state HTTP/1.1\r\nhost: a\r\nif-none-match: {etag}\r\n{header}\r\n");
    socket.write_all(format!("{head}\r\n{pipelined}").as_bytes()).await.unwrap();
    until("the client waits", || server.live.status().waiters == 1).await;
    socket
}

/// hyper does not look for the end of a connection while bytes of the next request are in its
/// buffer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_pipelined_bytes_and_leaves_waits_no_longer() {
    let server = TestServer::start().await;
    for header in ["prefer: wait=300", "accept: text/event-stream"] {
        for (pipelined, later) in [("GET /", ""), ("", "GET /"), ("GET /", "chains HTTP/1.1\r\n")] {
            let mut socket = waiting(&server, header, pipelined).await;
            socket.write_all(later.as_bytes()).await.unwrap();
            drop(socket);
            until("the client does not wait", || server.live.status().waiters == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_pipelined_bytes_and_stays_gets_all_responses() {
    let server = TestServer::start().await;
    let next = "GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut socket = waiting(&server, "prefer: wait=2", next).await;
    let mut responses = String::new();
    let read = socket.read_to_string(&mut responses);
    within("the end of the connection", read).await.unwrap();
    let found: Vec<_> = responses.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
    assert_eq!(found, ["HTTP/1.1 304 Not Modified", "HTTP/1.1 404 Not Found"]);
}
