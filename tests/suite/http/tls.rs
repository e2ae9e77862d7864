//! Is the API served over TLS, with the certificates that the client and the settings select?

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_host::HttpLimits;
use relayer_rest_host::config::{CertificateConfig, ListenAddress, ListenConfig};
use relayer_rest_host::module::Limits;
use relayer_rest_tests::certificates::{Authority, Issued};
use relayer_rest_tests::client::raw;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, until_async, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cli::check_failure;

/// A client of TLS.
#[derive(Default)]
pub(crate) struct TlsClient<'a> {
    /// A certificate of its own.
    own: Option<&'a Issued>,
    protocols: &'a [&'a [u8]],
}

impl TlsClient<'_> {
    /// Connects to a host with this name, whose certificate is of the authority.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
        authority: &Authority,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder().with_root_certificates(authority.roots());
        let mut config = match self.own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![own.der()], key).unwrap()
            }
        };
        config.alpn_protocols = self.protocols.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = name.to_owned().try_into().unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        within("the handshake", connecting).await
    }
}

/// Returns the response to a request on a connection that stays open.
pub(crate) async fn get(stream: &mut TlsStream<TcpStream>, host: &str) -> std::io::Result<String> {
    let request = format!("GET /version HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    while !response.ends_with(b"]") && !response.ends_with(b"}") {
        if within("a response", stream.read_buf(&mut response)).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8(response).unwrap())
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

/// Starts a server with TLS on its only listener, and with these lines in its section.
pub(crate) async fn serving(files: &Folder, lines: &str) -> (Serving, SocketAddr) {
    let settings = files.write("c.toml", format!("[[listen]]\naddress = '127.0.0.1:0'\n{lines}"));
    let serving = Program::new(["--config", &settings]).start().await;
    let address = serving.url().strip_prefix("https://").unwrap().parse().unwrap();
    (serving, address)
}

pub(crate) const CERTIFICATE: &str = "[[listen.tls]]\ncertificate = 'a.pem'\nkey = 'a.key'\n";

#[tokio::test]
async fn both_protocols_are_served() {
    let (files, authority) = (Folder::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    // The default port of the scheme is 443.
    let lines = format!("{CERTIFICATE}[http]\nhosts = ['localhost:443']\n");
    let (serving, address) = serving(&files, &lines).await;
    for (protocols, negotiated) in [
        (&[&b"http/1.1"[..]][..], Some(&b"http/1.1"[..])),
        (&[], None),
        (&[b"h2", b"http/1.1"], Some(b"h2")),
    ] {
        let client = TlsClient { protocols, ..TlsClient::default() };
        let mut stream = client.connect(address, "localhost", &authority).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), negotiated);
        if negotiated != Some(b"h2") {
            for _ in 0..3 {
                let response = get(&mut stream, "localhost").await.unwrap();
                assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            }
            let response = get(&mut stream, "localhost:80").await.unwrap();
            assert!(response.starts_with("HTTP/1.1 421 "), "{response}");
        }
    }
    let ca = files.write("ca.pem", authority.pem());
    for option in ["--http1.1", "--http2"] {
        let url = format!("https://localhost:{}/version", address.port());
        let output = tokio::process::Command::new("curl")
            .args(["--silent", "--fail", "--cacert", &ca, option, "-H", "host: localhost", &url])
            .output();
        let output = output.await.unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{option}: {output:?}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn plain_http_gets_an_error() {
    let (files, authority) = (Folder::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    let (serving, address) = serving(&files, CERTIFICATE).await;
    let response = raw(address, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
    assert!(response.contains("\"name\":\"TlsRequired\""), "{response}");
    // Bytes that are neither are answered by TLS.
    for bytes in [&b"\x16\x03\x01\xff\xff nonsense"[..], b"\0\0\0\0\0\0"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        drop(within("the end", stream.read_to_end(&mut Vec::new())).await);
    }
    let client = TlsClient::default();
    let mut stream = client.connect(address, "localhost", &authority).await.unwrap();
    get(&mut stream, "localhost").await.unwrap();
    serving.stop().await;
}

#[tokio::test]
async fn the_host_selects_the_certificate() {
    let (files, authority) = (Folder::new(), Authority::new());
    let issued = ["a.example", "*.b.example", "c.example"].map(|name| authority.issue(name));
    let mut lines = String::new();
    for (issued, name) in issued.iter().zip(["a", "b", "c"]) {
        issued.write(&files, name);
        let keys = format!("certificate = '{name}.pem'\nkey = '{name}.key'\n");
        lines.extend(["[[listen.tls]]\n", &keys]);
    }
    let (serving, address) = serving(&files, &lines).await;
    let client = TlsClient::default();
    for (name, place) in [("a.example", 0), ("x.b.example", 1), ("c.example", 2)] {
        let stream = client.connect(address, name, &authority).await.unwrap();
        assert_eq!(shown(&stream), issued[place].der(), "{name}");
    }
    // Another host gets the first one, which it does not accept.
    let error = client.connect(address, "d.example", &authority).await.unwrap_err();
    assert!(error.to_string().contains("a.example"), "{error}");
    serving.stop().await;
}

#[tokio::test]
async fn clients_need_a_certificate_of_the_authorities() {
    let (files, authority, of_clients) = (Folder::new(), Authority::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    files.write("clients.pem", of_clients.pem());
    let (serving, address) =
        serving(&files, &format!("client-ca = 'clients.pem'\n{CERTIFICATE}")).await;
    let own = of_clients.issue("client");
    let stranger = authority.issue("client");
    for (own, is_admitted) in [(Some(&own), true), (Some(&stranger), false), (None, false)] {
        let client = TlsClient { own, ..TlsClient::default() };
        let response = async {
            let mut stream = client.connect(address, "localhost", &authority).await?;
            get(&mut stream, "localhost").await
        };
        assert_eq!(response.await.is_ok(), is_admitted);
    }
    serving.stop().await;
}

#[tokio::test]
async fn changed_certificates_are_read_again() {
    let (files, authority) = (Folder::new(), Authority::new());
    let first = authority.issue("localhost");
    first.write(&files, "a");
    let (mut serving, address) = serving(&files, CERTIFICATE).await;
    let client = TlsClient::default();
    let mut open = client.connect(address, "localhost", &authority).await.unwrap();
    get(&mut open, "localhost").await.unwrap();
    assert_eq!(shown(&open), first.der());

    let second = authority.issue("localhost");
    second.write(&files, "a");
    let is_second = async || {
        let stream = client.connect(address, "localhost", &authority).await.unwrap();
        shown(&stream) == second.der()
    };
    until_async("new connections get the new certificate", is_second).await;
    // The open connection goes on.
    get(&mut open, "localhost").await.unwrap();

    // With an invalid file, the former certificate stays in use.
    fs::write(files.join("a.key"), "nonsense").unwrap();
    serving.logged("certificates not reloaded; the former ones stay in use").await;
    assert!(is_second().await);
    let reload = Program::new(["reload"]).socket(&serving.socket).run().await;
    assert_eq!(reload.status, Some(1), "{reload:?}");
    let message = format!("{}: no valid private key in PEM: ", files.path("a.key"));
    assert!(reload.stdout.contains(&message) || reload.stderr.contains(&message), "{reload:?}");
    serving.stop().await;
}

#[tokio::test]
async fn a_handshake_has_a_time_limit() {
    let (files, authority) = (Folder::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    let (serving, address) = serving(&files, &format!("{CERTIFICATE}[http]\nidle = '1s'\n")).await;
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        drop(within("the end of the connection", stream.read_to_end(&mut rest)).await);
    }
    serving.stop().await;
}

/// A handshake for a response would cost more than the response.
#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed() {
    let (files, authority) = (Folder::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    let mut listen = ListenConfig::from("127.0.0.1:0".parse::<ListenAddress>().unwrap());
    let [certificate, key] = ["a.pem", "a.key"].map(|name| files.join(name));
    listen.tls = vec![CertificateConfig { certificate, key }];
    let spins = component::of_handler("(loop br 0) unreachable");
    let limits = Limits { time: Duration::from_hours(1), ..Limits::default() };
    let http = HttpLimits { connections: 1, ..HttpLimits::default() };
    let server = TestServer::builder().component(&spins).limits(&limits).http(http);
    let server = server.listen(listen).start().await;
    let client = TlsClient::default();
    let mut busy = client.connect(server.address, "localhost", &authority).await.unwrap();
    busy.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until("the request runs", || server.api().status().module().unwrap().runs == 1).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut response = Vec::new();
    drop(within("the end", stream.read_to_end(&mut response)).await);
    assert_eq!(response, b"");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_an_error_at_the_start() {
    let (files, authority) = (Folder::new(), Authority::new());
    authority.issue("localhost").write(&files, "a");
    authority.issue("localhost").write(&files, "b");
    files.write("empty.pem", "");
    let path = |name: &str| files.path(name);
    for (lines, message) in [
        (
            "certificate = 'c.pem'\nkey = 'a.key'".to_owned(),
            format!("{}: cannot be read: ", path("c.pem")),
        ),
        (
            "certificate = 'empty.pem'\nkey = 'a.key'".to_owned(),
            format!("{}: no valid certificate in PEM: ", path("empty.pem")),
        ),
        (
            "certificate = 'a.pem'\nkey = 'a.pem'".to_owned(),
            format!("{}: no valid private key in PEM: ", path("a.pem")),
        ),
        (
            "certificate = 'a.pem'\nkey = 'b.key'".to_owned(),
            format!(
                "{}: keys may not be consistent: KeyMismatch; give the key of this certificate",
                path("a.pem")
            ),
        ),
    ] {
        let settings = files.write(
            "c.toml",
            format!("[[listen]]\naddress = '127.0.0.1:0'\n[[listen.tls]]\n{lines}\n"),
        );
        let ended = Program::new(["--config", &settings]).run().await;
        check_failure(&ended, 2, &format!("address 127.0.0.1:0: tls: {message}"));
    }
    let settings =
        files.write("c.toml", "[[listen]]\naddress = '127.0.0.1:0'\nclient-ca = 'a.pem'\n");
    let ended = Program::new(["--config", &settings]).run().await;
    let message = "line 3, column 13: listen[0].client-ca: only TLS has certificates of clients; add a section [[listen.tls]]";
    check_failure(&ended, 2, &format!("configuration {settings}: {message}"));
}
