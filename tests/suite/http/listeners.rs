//! Do clients reach the server on each of its listeners?

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use rustix::process::Signal;

use crate::cli::check_failure;

/// Returns the response to a request on a Unix socket.
fn unix_get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Returns the addresses of a log.
async fn addresses(serving: &mut Serving, count: usize) -> Vec<String> {
    let mut addresses = Vec::new();
    for _ in 0..count {
        serving.logged("listening address=").await;
        let line = serving.log().lines().last().unwrap();
        addresses.push(line.split_once("address=").unwrap().1.to_owned());
    }
    addresses
}

#[tokio::test]
async fn the_api_is_served_on_each_listener() {
    let files = Folder::new();
    let settings = files.write(
        "c.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\n[[listen]]\naddress = '[::1]:0'\n[[listen]]\naddress = 'unix:api.sock'\n",
    );
    let socket = files.join("api.sock");
    let mut serving = Program::new(["--config", &settings]).start().await;
    let addresses = addresses(&mut serving, 3).await;
    assert_eq!(addresses[0], serving.address().to_string());
    assert!(addresses[1].starts_with("[::1]:"), "{addresses:?}");
    assert_eq!(addresses[2], format!("unix:{}", socket.display()));
    let expected = Client::http1(serving.address()).await.get("/version").await;
    for address in &addresses[..2] {
        let address = address.parse().unwrap();
        for mut client in [Client::http1(address).await, Client::http2(address).await] {
            client.get("/version").await.check(200, expected.text());
        }
    }
    let response = unix_get(&socket, "/version");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with(expected.text()), "{response}");
    // Each line of stdout is a listener.
    let stdout = serving.stop().await.stdout;
    assert_eq!(
        stdout.lines().collect::<Vec<_>>(),
        [format!("http://{}", addresses[1]), addresses[2].clone()]
    );
}

/// The address of all interfaces is of both families.
#[tokio::test]
async fn an_address_of_ipv6_can_accept_ipv4() {
    let mut serving = Program::new(["--listen", "[::]:0"]).start().await;
    let addresses = addresses(&mut serving, 1).await;
    let port = addresses[0].strip_prefix("[::]:").unwrap();
    for host in ["127.0.0.1", "[::1]"] {
        let mut client = Client::http1(format!("{host}:{port}").parse().unwrap()).await;
        assert_eq!(client.get("/version").await.status, 200, "{host}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn options_can_name_several_addresses() {
    let files = Folder::new();
    let settings = files.write("c.toml", "listen = '127.0.0.1:1'\n");
    let socket = files.path("api.sock");
    let listen = ["--listen", "127.0.0.1:0", "--listen", &format!("unix:{socket}")];
    let serving = Program::new(["--config", &settings]).args(listen).start().await;
    assert!(unix_get(Path::new(&socket), "/version").starts_with("HTTP/1.1 200 OK\r\n"));
    Client::http1(serving.address()).await.get("/version").await;
    serving.stop().await;
}

#[tokio::test]
async fn a_unix_socket_has_its_mode_and_its_owner_and_is_removed() {
    let files = Folder::new();
    let user = rustix::process::geteuid().as_raw();
    let settings = files.write(
        "c.toml",
        format!("[[listen]]\naddress = '127.0.0.1:0'\n[[listen]]\naddress = 'unix:own.sock'\nmode = '0600'\nowner = '{user}:{user}'\n[[listen]]\naddress = 'unix:default.sock'\n"),
    );
    let [own, default] = ["own.sock", "default.sock"].map(|name| files.join(name));
    let program = || Program::new(["--config", &settings]);
    let serving = program().start().await;
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&own), mode(&default)], [0o600, 0o660]);
    let meta = fs::metadata(&own).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (user, user));
    // Another server does not take it.
    let ended = program().run().await;
    let address = format!("address unix:{}", own.display());
    check_failure(&ended, 2, &format!("{address}: cannot listen: another server uses it; "));
    let idle = UnixStream::connect(&own).unwrap();
    serving.stop().await;
    assert!(!own.exists() && !default.exists());
    drop(idle);

    // The socket of a server that was killed is replaced, any other file is kept.
    drop(UnixListener::bind(&own).unwrap());
    program().start().await.stop().await;
    fs::write(&own, "content").unwrap();
    let ended = program().run().await;
    let message = "cannot listen: the path exists and is not a socket; choose a path";
    check_failure(&ended, 2, &format!("{address}: {message}"));
    assert_eq!(fs::read_to_string(&own).unwrap(), "content");
}

/// All clients behind a reverse proxy on a Unix socket have no address.
#[tokio::test]
async fn a_unix_socket_has_no_limit_for_one_address() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[http]\nconnections-per-peer = 1\n");
    let socket = files.path("api.sock");
    let listen = ["--listen", "127.0.0.1:0", "--listen", &format!("unix:{socket}")];
    let serving = Program::new(["--config", &settings]).args(listen).start().await;
    let mut streams: Vec<_> = (0..4).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        let mut start = [0; 15];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
    }
    serving.stop().await;
}

#[tokio::test]
async fn both_protocols_are_served_on_a_unix_socket() {
    let files = Folder::new();
    let socket = files.path("api.sock");
    let listen = ["--listen", "127.0.0.1:0", "--listen", &format!("unix:{socket}")];
    let serving = Program::new(listen).start().await;
    for (option, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let output = tokio::process::Command::new("curl")
            .args([
                "--silent",
                "--fail",
                "--write-out",
                " %{http_version}",
                "--unix-socket",
                &socket,
            ])
            .args([option, "http://h/version"])
            .output();
        let output = output.await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.ends_with(&format!("}} {version}")) || text.ends_with(&format!("] {version}")),
            "{text}"
        );
    }
    serving.stop().await;
}

#[tokio::test]
async fn an_invalid_listener_names_its_place() {
    let files = Folder::new();
    for (content, message) in [
        (
            "listen = ':1'",
            "line 1, column 10: listen: \":1\": the host is missing: 0.0.0.0 listens on all addresses",
        ),
        (
            "listen = ['[::1]:0', 'unix:']",
            "line 1, column 22: listen[1]: \"unix:\": the path is missing: ",
        ),
        (
            "listen = 3",
            "line 1, column 10: listen: invalid type: integer `3`, expected an address, a list of addresses, or sections [[listen]]",
        ),
        (
            "[[listen]]\naddress = 'a:b'",
            "line 2, column 11: listen[0].address: \"a:b\": the port is not a number from 0 to 65535",
        ),
        (
            "[[listen]]\naddress = 'unix:a'\nmode = '0999'",
            "line 3, column 8: listen[0].mode: \"0999\" is not a mode; expected one such as \"0660\"",
        ),
        (
            "[[listen]]\naddresses = 'a:0'",
            "line 2, column 1: listen[0].addresses: unknown field `addresses`",
        ),
        (
            "[[listen]]\naddress = '127.0.0.1:0'\nmode = '0600'",
            "line 3, column 8: listen[0].mode: only a Unix socket has a mode and an owner",
        ),
    ] {
        let settings = files.write("c.toml", content);
        let ended = Program::new(["--config", &settings]).run().await;
        check_failure(&ended, 2, &format!("configuration {settings}: {message}"));
    }
    let settings =
        files.write("c.toml", "[[listen]]\naddress = 'unix:a'\nowner = 'nobody-of-this-name'\n");
    let ended = Program::new(["--config", &settings]).run().await;
    let message = format!(
        "address unix:{}: there is no user \"nobody-of-this-name\"; expected USER, USER:GROUP or :GROUP",
        files.path("a")
    );
    check_failure(&ended, 2, &message);
    assert!(!files.join("a").exists());
}

/// A server on a Unix socket alone has a control socket that the commands find.
#[tokio::test]
async fn a_server_can_listen_on_a_unix_socket_alone() {
    let files = Folder::new();
    let socket = files.path("api.sock");
    let program = Program::new(["--listen", &format!("unix:{socket}")]);
    let program = program.env("XDG_RUNTIME_DIR", files.as_path()).env("RELAYER_REST_CONTROL", "");
    let serving = program.start().await;
    assert!(unix_get(Path::new(&socket), "/version").starts_with("HTTP/1.1 200 OK\r\n"));
    let status = Program::new(["status"]);
    let status = status.env("XDG_RUNTIME_DIR", files.as_path()).env("RELAYER_REST_CONTROL", "");
    let status = status.run().await;
    assert_eq!(status.status, Some(0), "{status:?}");
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().await.status, Some(0));
}
