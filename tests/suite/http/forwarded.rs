//! Is a client behind a trusted proxy the one in `x-forwarded-for`?

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::wait::until;

/// Starts a server with an extension that never ends for `/spin`, and with these settings of
/// `[http]`.
async fn serving(files: &Folder, http: &str) -> Serving {
    let module = files.write("spin.wasm", component::that_spins_on_spin());
    let text = format!(
        "[access-log]\nfile = 'access.log'\n[http]\n{http}\n[[extension]]\nname = 'a'\nmodule = '{module}'\n[extension.limits]\ntime = '60s'\n"
    );
    let settings = files.write("c.toml", text);
    Program::new(["--listen", "127.0.0.1:0", "--config", &settings]).start().await
}

/// Sends a request of a client, on a connection of its own.
fn send(serving: &Serving, path: &str, client: &str) -> TcpStream {
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    let request = super::request(path, &format!("x-forwarded-for: {client}\r\n"));
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns the response to a request of a client; nothing if the connection is evicted for another
/// one, which a thread may accept later although it was opened before.
fn get(serving: &Serving, path: &str, client: &str) -> String {
    let mut response = vec![0; 1 << 16];
    let length = match send(serving, path, client).read(&mut response) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
        read => read.unwrap(),
    };
    String::from_utf8_lossy(&response[..length]).into_owned()
}

/// Returns the clients of the access log.
fn logged(files: &Folder) -> Vec<String> {
    let text = fs::read_to_string(files.join("access.log")).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_client_of_a_proxy_has_a_limit_of_its_own() {
    let files = Folder::new();
    let http = "trusted-proxies = ['127.0.0.0/8']\nconnections-per-peer = 2";
    let serving = serving(&files, http).await;
    // Cached responses are not limited: each request has a path of its own.
    let mut paths = (0..).map(|number| format!("/ext/a/other/{number}"));
    let mut get_uncached = |client| get(&serving, &paths.next().unwrap(), client);
    let mut spinning = Vec::new();
    let mut refused = String::new();
    // Requests may begin in another order than they are sent. Some are sent until there are
    // too many.
    until("the client has too many requests", || {
        spinning.push(send(&serving, "/ext/a/spin", "192.0.2.1"));
        refused = get_uncached("192.0.2.1");
        refused.starts_with("HTTP/1.1 429 ")
    })
    .await;
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("\"TooManyRequests\""), "{refused}");
    for client in ["192.0.2.2", "192.0.2.1, 192.0.2.3", "2001:db8::1"] {
        let response = get_uncached(client);
        assert!(response.starts_with("HTTP/1.1 204 "), "{response}");
    }
    drop(spinning);
    until("the requests are cancelled", || get_uncached("192.0.2.1").starts_with("HTTP/1.1 204 "))
        .await;
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"] {
        until("the client is logged", || logged(&files).iter().any(|logged| logged == client))
            .await;
    }
    serving.stop().await;
}

#[tokio::test]
async fn the_header_of_another_sender_has_no_effect() {
    let files = Folder::new();
    let serving =
        serving(&files, "trusted-proxies = ['10.0.0.0/8']\nconnections-per-peer = 1").await;
    // A connection whose request has not begun yet is evicted instead.
    let mut spinning = None;
    until("the connection counts for its sender", || {
        spinning = Some(send(&serving, "/ext/a/spin", "192.0.2.1"));
        get(&serving, "/version", "192.0.2.2").starts_with("HTTP/1.1 503 ")
    })
    .await;
    drop(spinning);
    until("requests are logged", || !logged(&files).is_empty()).await;
    assert!(logged(&files).iter().all(|client| client == "127.0.0.1"));
    serving.stop().await;
}
