//! Does Hermes clear packets for clients with a token, and only then?

use std::net::SocketAddr;

use relayer_rest_hermes_tests::hermes::{Build, Hermes};
use relayer_rest_hermes_tests::host::Host;
use relayer_rest_hermes_tests::http::{get, send};
use relayer_rest_hermes_tests::node::{CHAINS, Nodes};
use relayer_rest_hermes_tests::settings::TOKEN;
use relayer_rest_hermes_tests::wait::until;

/// Each command, refused or not, and its status.
const REFUSED: [(&str, &str, u16); 6] = [
    ("/clear_packets?chain=ibc-0", "", 401),
    ("/clear_packets?chain=ibc-0", "authorization: Bearer other\r\n", 403),
    ("/clear_packets", TOKEN, 400),
    ("/clear_packets?chain=ibc-0&channel=channel-0", TOKEN, 400),
    ("/clear_packets?chain=ibc-9", TOKEN, 404),
    ("/clear_packets?chain=ibc-9&all=true", TOKEN, 400),
];

#[test]
fn hermes_clears_packets() {
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Original, &nodes);
    let host = Host::start(hermes.address(), hermes.telemetry());
    check(host.address(), &hermes);
}

#[test]
fn hermes_with_the_host_inside_clears_packets() {
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Patched, &nodes);
    check(hermes.address(), &hermes);
}

fn check(api: SocketAddr, hermes: &Hermes) {
    for path in ["/chain/ibc-0", "/chain/ibc-1"] {
        until(path, || get(api, path).status == 200);
    }
    for (path, token, status) in REFUSED {
        let response = send(api, "POST", path, token);
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
    for method in ["GET", "HEAD"] {
        let response = send(api, method, "/clear_packets?all=true", TOKEN);
        assert_eq!(response.status, 405, "{response:?}");
    }
    assert_eq!(cleared(hermes), [0, 0]);

    let clear = |path| send(api, "POST", path, TOKEN).content();
    let success = (200, r#"{"status":"success","result":null}"#.to_owned());
    assert_eq!(clear("/clear_packets?chain=ibc-1"), success);
    assert_eq!(cleared(hermes), [0, 1]);
    assert_eq!(clear("/clear_packets?all=true"), success);
    assert_eq!(cleared(hermes), [1, 2]);
}

/// Returns how often Hermes has cleared the packets of each chain.
fn cleared(hermes: &Hermes) -> [usize; 2] {
    let log = hermes.log();
    CHAINS.map(|chain| log.matches(&format!("clearing packets for chain {chain} after")).count())
}
