//! Do the units for systemd have no problems, and does the server listen on a socket of it?

use std::fs;
use std::process::Command;

use relayer_rest_tests::cargo::root;
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::until_async;

use super::free_address;

/// The maximum exposure, in tenths.
const EXPOSURE: &str = "--threshold=20";

/// Returns the output of `systemd-analyze`, and whether it succeeds.
fn analyze(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).output();
    let output = output.expect("systemd is installed");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
#[ignore = "needs systemd-analyze: apt install systemd"]
fn the_units_are_valid_and_hardened() {
    let files = Folder::new();
    let unit = |name: &str| {
        let text = fs::read_to_string(root().join("docs/systemd").join(name)).unwrap();
        let program = Program::path();
        files.write(name, text.replace("/usr/bin/relayer-rest", program.to_str().unwrap()))
    };
    let units = ["relayer-rest.service", "relayer-rest.socket"].map(unit);
    let verified = analyze(&["verify", "--man=no", &units[0], &units[1]]);
    assert_eq!(verified, (true, String::new()));
    let (is_hardened, report) = analyze(&["security", "--offline=true", EXPOSURE, &units[0]]);
    assert!(is_hardened, "{report}");
}

#[tokio::test]
#[ignore = "needs systemd-socket-activate: apt install systemd"]
async fn the_server_listens_on_a_passed_socket() {
    let address = free_address();
    let listen = address.to_string();
    let activator = [
        "systemd-socket-activate",
        "-l",
        &listen,
        "-E",
        "RELAYER_REST_CONTROL",
        "-E",
        "RELAYER_REST_CODE_CACHE",
    ];
    // The socket takes precedence over an address that is in use.
    let program = Program::new(["serve", "--listen", "127.0.0.1:1"]).launched_by(&activator);
    let spawned = program.spawn();
    // The first connection starts the server, and waits for it.
    let connects = async || std::net::TcpStream::connect(address).is_ok();
    until_async("the socket is open", connects).await;
    let mut client = Client::http1(address).await;
    assert_eq!(client.get("/version").await.status, 200);
    let serving = program.listening(spawned).await.unwrap();
    assert_eq!(serving.address(), address);
    serving.stop().await;
}

/// The sections `[[listen]]` are for the sockets in their order.
#[tokio::test]
#[ignore = "needs systemd-socket-activate: apt install systemd"]
async fn several_sockets_are_passed_with_their_sections() {
    let files = Folder::new();
    let authority = Authority::new();
    authority.issue("localhost").write(&files, "own");
    let ca = files.write("ca.pem", authority.pem());
    let settings = files.write(
        "c.toml",
        "[[listen]]\naddress = 'unix:elsewhere'\n[[listen]]\naddress = '127.0.0.1:1'\n[[listen.tls]]\ncertificate = 'own.pem'\nkey = 'own.key'\n",
    );
    let socket = files.path("socket");
    let address = free_address();
    let listen = address.to_string();
    let mut activator = vec!["systemd-socket-activate", "-l", &socket, "-l", &listen];
    activator.extend(["-E", "RELAYER_REST_CONTROL", "-E", "RELAYER_REST_CODE_CACHE"]);
    let program = Program::new(["serve", "--config", &settings]).launched_by(&activator);
    let spawned = program.spawn();
    let connects = async || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    until_async("the socket is open", connects).await;
    let serving = program.listening(spawned).await.unwrap();
    assert_eq!(serving.url(), format!("unix:{socket}"));
    let curl = async |arguments: &[&str]| {
        let output = tokio::process::Command::new("curl").args(arguments).output();
        let output = output.await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    };
    // The certificate is for this name.
    let resolved = format!("localhost:{}:{}", address.port(), address.ip());
    let over_unix = curl(&["-sf", "--unix-socket", &socket, "http://h/version"]).await;
    let url = format!("https://localhost:{}/version", address.port());
    assert_eq!(over_unix, curl(&["-sf", "--resolve", &resolved, "--cacert", &ca, &url]).await);
    serving.stop().await;
    // The socket is of the service manager.
    assert!(files.join("socket").exists() && !files.join("elsewhere").exists());
}
