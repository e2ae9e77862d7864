//! Is a client behind a proxy the one in the header of the PROXY protocol?

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::wait::until;
use rustix::process::Signal;

use crate::cli::check_failure;

const GET: &[u8] = b"GET /version HTTP/1.1\r\nhost: h\r\n\r\n";

/// Returns a header of version 1 for a client.
fn v1(client: &str) -> Vec<u8> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let proxy = if client.contains(':') { "::1" } else { "127.0.0.1" };
    format!("PROXY {family} {client} {proxy} 4000 3000\r\n").into_bytes()
}

/// Returns a header of version 2 with this command, family and content.
fn v2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command, family][..], &length, content].concat()
}

/// Returns the content for a client with an address of IPv4, and more.
fn v4(client: [u8; 4], more: &[u8]) -> Vec<u8> {
    [&client[..], &[127, 0, 0, 1], &4000_u16.to_be_bytes(), &3000_u16.to_be_bytes(), more].concat()
}

/// Starts a server with the PROXY protocol, and with these settings.
async fn serving(files: &Folder, more: &str) -> Serving {
    let settings = files.write(
        "c.toml",
        format!(
            "[[listen]]\naddress = '127.0.0.1:0'\nproxy-protocol = true\n[http]\ntrusted-proxies = ['127.0.0.0/8']\n{more}"
        ),
    );
    Program::new(["--config", &settings]).start().await
}

/// Returns whether a connection responds to another request.
fn responds(mut stream: impl Read + Write) -> bool {
    let mut response = [0; 1 << 10];
    let sent = stream.write_all(GET);
    let read = stream.read(&mut response);
    sent.is_ok() && read.is_ok_and(|length| response[..length].starts_with(b"HTTP/1.1 200 OK\r\n"))
}

/// Connects, and sends these bytes.
fn connect(serving: &Serving, header: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    stream.write_all(header).unwrap();
    stream
}

/// Its header and request are on their way when the server shuts down.
#[tokio::test]
async fn an_accepted_connection_is_served_at_a_shutdown() {
    let files = Folder::new();
    let serving = serving(&files, "[server]\ndrain = '1h'\ngrace = '1h'\n").await;
    let address = serving.address();
    let header = v1("192.0.2.1");
    let (start, rest) = header.split_at(6);
    let mut first = connect(&serving, start);
    until("it is accepted", || serving.accept_queues().iter().all(|waiting| *waiting == 0)).await;
    serving.signal(Signal::TERM);
    until("the server does not listen", || TcpStream::connect(address).is_err()).await;
    first.write_all(rest).unwrap();
    assert!(responds(&first));
    assert_eq!(serving.ended().await.status, Some(0));
}

#[tokio::test]
async fn both_versions_are_read() {
    let files = Folder::new();
    let serving = serving(&files, "").await;
    let tlvs = [4, 0, 3, 1, 2, 3];
    let unix = [7; 216];
    for header in [
        v1("192.0.2.1"),
        v1("2001:db8::1"),
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 1::2 3::4 5 6\r\n".to_vec(),
        v2(1, 0x11, &v4([192, 0, 2, 1], &[])),
        v2(1, 0x11, &v4([192, 0, 2, 1], &tlvs)),
        v2(1, 0x31, &unix),
        // A health check of the proxy itself.
        v2(0, 0, &[]),
    ] {
        // The request comes with the header, after it, or its bytes come one by one.
        let mut together = connect(&serving, &[&header[..], GET].concat());
        let mut start = [0; 15];
        together.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK", "{header:?}");
        assert!(responds(connect(&serving, &header)), "{header:?}");
        let mut stream = TcpStream::connect(serving.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in &header {
            stream.write_all(&[*byte]).unwrap();
        }
        assert!(responds(stream), "{header:?}");
    }
    serving.stop().await;
}

/// Of two connections of one client, the first is evicted; other clients keep theirs.
#[tokio::test]
async fn the_limit_of_one_address_is_for_the_client() {
    let files = Folder::new();
    let serving = serving(&files, "connections-per-peer = 1\n").await;
    let open = |header: &[u8]| {
        let stream = connect(&serving, header);
        assert!(responds(&stream));
        stream
    };
    let first = open(&v1("192.0.2.1"));
    let others = [v1("192.0.2.2"), v1("2001:db8::1"), v2(1, 0x11, &v4([192, 0, 2, 3], &[]))];
    let others = others.map(|header| open(&header));
    // The server may still be sending the response when the client has it.
    let mut second = None;
    let is_served = || {
        let stream = connect(&serving, &v2(1, 0x11, &v4([192, 0, 2, 1], &[])));
        let is_served = responds(&stream);
        second = Some(stream);
        is_served
    };
    until("another connection of the client is served", is_served).await;
    until("the first connection is evicted", || !responds(&first)).await;
    assert!(others.iter().all(responds));
    serving.stop().await;
}

#[tokio::test]
async fn connections_without_a_valid_header_are_closed() {
    let files = Folder::new();
    let mut serving = serving(&files, "idle = '1s'\n").await;
    for bytes in [
        GET.to_vec(),
        b"PROXY TCP4 300.0.0.1 1.2.3.4 5 6\r\n".to_vec(),
        [b"PROXY TCP4 ", &[b'1'; 200][..]].concat(),
        v2(1, 0x11, &[1, 2, 3]),
        // More than is accepted.
        v2(1, 0x11, &v4([1, 2, 3, 4], &[0; 5000])),
        // The rest does not come.
        v2(1, 0x11, &v4([1, 2, 3, 4], &[]))[..20].to_vec(),
        b"PROXY TCP4 ".to_vec(),
        Vec::new(),
    ] {
        let mut stream = connect(&serving, &bytes);
        let mut response = Vec::new();
        // A reset is an end, too.
        drop(stream.read_to_end(&mut response));
        assert_eq!(response, b"", "{bytes:?}");
    }
    serving.logged("connection to a listener with the PROXY protocol refused").await;
    assert!(responds(connect(&serving, &v1("192.0.2.1"))));
    let status = serving.control(&["status", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    // The connection without a byte can end before it waits for the header.
    assert!(status["connections"]["refused"].as_u64().unwrap() >= 7, "{status}");
    serving.stop().await;
}

#[tokio::test]
async fn only_trusted_proxies_can_connect() {
    let files = Folder::new();
    let socket = files.path("api.sock");
    let settings = files.write(
        "c.toml",
        format!("[[listen]]\naddress = '127.0.0.1:0'\nproxy-protocol = true\n[[listen]]\naddress = 'unix:{socket}'\nproxy-protocol = true\n[[listen]]\naddress = '127.0.0.2:0'\n[http]\ntrusted-proxies = ['10.0.0.0/8', '::1/128']\n"),
    );
    let mut serving = Program::new(["--config", &settings]).start().await;
    let mut stream = connect(&serving, &v1("192.0.2.1"));
    drop(stream.read_to_end(&mut Vec::new()));
    serving.logged("127.0.0.1 is not in http.trusted-proxies").await;
    // Programs of this machine are trusted.
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(&v1("192.0.2.1")).unwrap();
    assert!(responds(&stream));
    serving.stop().await;

    let settings =
        files.write("d.toml", "[[listen]]\naddress = '127.0.0.1:0'\nproxy-protocol = true\n");
    let ended = Program::new(["--config", &settings]).run().await;
    let message = "line 3, column 18: listen[0].proxy-protocol: no proxy can connect; name their networks in trusted-proxies of [http]";
    check_failure(&ended, 2, &format!("configuration {settings}: {message}"));
    // They can be in another layer.
    let program = || Program::new(["--config", &settings]);
    let program = program().env("RELAYER_REST_HTTP_TRUSTED_PROXIES", "[\"127.0.0.1/32\"]");
    program.start().await.stop().await;
    let listen = "[{ address = \"127.0.0.1:0\", proxy-protocol = true }]";
    let program = || Program::new(["serve"]).env("RELAYER_REST_LISTEN", listen);
    let ended = program().run().await;
    let message = "RELAYER_REST_LISTEN: listen[0].proxy-protocol: no proxy can connect; ";
    check_failure(&ended, 2, message);
    let settings = files.write("e.toml", "[http]\ntrusted-proxies = ['127.0.0.1/32']\n");
    program().args(["--config", &settings]).start().await.stop().await;
}
