//! Does the host serve the API of an unmodified Hermes in front of which it runs?

use std::collections::BTreeSet;
use std::net::SocketAddr;

use relayer_rest_hermes_tests::api::{connected_chains, until_same, workers};
use relayer_rest_hermes_tests::chain::{BALANCE, DENOM};
use relayer_rest_hermes_tests::hermes::{Build, Hermes};
use relayer_rest_hermes_tests::host::Host;
use relayer_rest_hermes_tests::http::get;
use relayer_rest_hermes_tests::load;
use relayer_rest_hermes_tests::node::Nodes;
use relayer_rest_hermes_tests::proxy::Proxy;
use relayer_rest_hermes_tests::wait::{until, until_equal};

#[test]
fn responses_are_those_of_hermes() {
    let nodes = Nodes::start();
    nodes.open_channel(0);
    let hermes = Hermes::start(Build::Original, &nodes);
    let host = Host::start(hermes.address(), hermes.telemetry());
    until_same(host.address(), hermes.address());
    assert_eq!((workers(host.address(), "Wallet"), workers(host.address(), "Client")), (2, 2));
}

#[test]
fn workers_appear_and_disappear() {
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Original, &nodes);
    let host = Host::start(hermes.address(), hermes.telemetry());
    until("the wallets have workers", || workers(host.address(), "Wallet") == 2);
    assert_eq!(workers(host.address(), "Client"), 0);

    nodes.open_channel(0);
    until("the clients have workers", || workers(host.address(), "Client") == 2);
    until_same(host.address(), hermes.address());

    // Further packets keep the worker until it is in the state.
    until("the packets have a worker", || {
        nodes.send_packet(0, 0);
        workers(host.address(), "Packet") == 1
    });
    until("the idle worker ends", || workers(host.address(), "Packet") == 0);
    until_same(host.address(), hermes.address());
}

#[test]
fn the_state_is_stale_while_hermes_does_not_run() {
    let mut nodes = Nodes::start();
    nodes.open_channel(0);
    let mut hermes = Hermes::start(Build::Original, &nodes);
    let host = Host::start(hermes.address(), hermes.telemetry());
    until("the clients have workers", || workers(host.address(), "Client") == 2);
    let is_stale = || get(host.address(), "/state").header("warning").is_some();
    assert!(!is_stale());

    hermes.kill();
    until("the state is stale", is_stale);
    assert_eq!((workers(host.address(), "Client"), connected_chains(host.address())), (2, 2));

    nodes.stop(1);
    hermes.restart();
    until("the state is fresh", || !is_stale());
    assert_eq!((workers(host.address(), "Client"), connected_chains(host.address())), (0, 1));
    until_same(host.address(), hermes.address());
}

#[test]
fn telemetry_of_hermes_is_in_the_metrics_and_in_the_health() {
    const PACKETS: &str = "send_packet_events_total{chain=\"ibc-0\"";
    const EMPTY_LABEL: &str = ",otel_scope_version=\"\"";
    let nodes = Nodes::start();
    nodes.open_channel(0);
    let hermes = Hermes::start(Build::Original, &nodes);
    let host = Host::start(hermes.address(), hermes.telemetry());
    until("there are values of the channel", || {
        lines(hermes.telemetry(), "/metrics", PACKETS).iter().any(|line| line.ends_with(" 0"))
    });
    let kinds = |server, path| lines(server, path, "# TYPE ");
    until("all families are in the metrics", || {
        kinds(hermes.telemetry(), "/metrics").is_subset(&kinds(host.address(), "/ext/metrics"))
    });
    let health = |balance: u64| {
        let path = format!("/ext/health/readyz?min-balance={balance}{DENOM}");
        get(host.address(), &path).status
    };
    until("the balances are known", || health(BALANCE) == 200);
    assert_eq!(health(BALANCE + 1), 503);

    nodes.send_packet(0, 0);
    until_equal("the packet is in the metrics", || {
        let found = lines(host.address(), "/ext/metrics", PACKETS);
        let is_sent = found.iter().any(|line| line.ends_with(" 1"));
        let exported = lines(hermes.telemetry(), "/metrics", PACKETS);
        // An empty label is one that is absent.
        let expected = exported.iter().map(|line| line.replace(EMPTY_LABEL, ""));
        ((found, is_sent), (expected.collect(), true))
    });
}

#[test]
fn hermes_gets_a_request_in_a_second_at_most() {
    const REQUESTS: usize = 12;
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Original, &nodes);
    let proxy = Proxy::start(hermes.address());
    let host = Host::start(proxy.address(), hermes.telemetry());
    until_same(host.address(), hermes.address());

    let start = proxy.requests().len();
    let load = load::during(host.address(), || {
        until("there are polls", || proxy.requests().len() >= start + REQUESTS);
    });
    let requests = &proxy.requests()[start..];
    let time = requests[requests.len() - 1].0 - requests[0].0;
    // A delayed request can be followed by one that is in time.
    let allowed = time.as_secs() + 2;
    assert!(u64::try_from(requests.len()).unwrap() <= allowed, "within {time:?}: {requests:?}");
    assert!(load.responses > 10 * requests.len(), "there are few requests: {load:?}");
}

/// Returns the lines of a response with this beginning.
fn lines(server: SocketAddr, path: &str, start: &str) -> BTreeSet<String> {
    let body = get(server, path).body;
    body.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}
