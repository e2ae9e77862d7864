//! Does Hermes serve the API of the original if it is built as `docs/embedding.md` describes?

use std::fs;
use std::io::Write;

use relayer_rest_hermes_tests::api::{until_same, workers};
use relayer_rest_hermes_tests::hermes::{Build, Hermes};
use relayer_rest_hermes_tests::host::command;
use relayer_rest_hermes_tests::load;
use relayer_rest_hermes_tests::node::Nodes;
use relayer_rest_hermes_tests::wait::until;
use tempfile::TempDir;

#[test]
fn responses_are_those_of_hermes() {
    let nodes = Nodes::start();
    nodes.open_channel(0);
    let original = Hermes::start(Build::Original, &nodes);
    let mut patched = Hermes::start(Build::Patched, &nodes);
    until_same(patched.address(), original.address());
    assert_eq!(
        (workers(patched.address(), "Wallet"), workers(patched.address(), "Client")),
        (2, 2)
    );

    patched.restart();
    until_same(patched.address(), original.address());
}

#[test]
fn workers_appear_and_disappear() {
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Patched, &nodes);
    until("the wallets have workers", || workers(hermes.address(), "Wallet") == 2);
    assert_eq!(workers(hermes.address(), "Client"), 0);

    nodes.open_channel(0);
    until("the clients have workers", || workers(hermes.address(), "Client") == 2);

    // Further packets keep the worker until it is in the state.
    until("the packets have a worker", || {
        nodes.send_packet(0, 0);
        workers(hermes.address(), "Packet") == 1
    });
    until("the idle worker ends", || workers(hermes.address(), "Packet") == 0);
}

#[test]
fn a_module_is_swapped_under_load() {
    let nodes = Nodes::start();
    let hermes = Hermes::start(Build::Patched, &nodes);
    let folder = TempDir::new().unwrap();
    let module = folder.path().join("module.wasm");
    let run = |arguments: &[&str]| {
        let mut command = command(&hermes.control());
        let output = command.args(arguments).arg(&module).output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
    };
    run(&["module", "--dialect", "1.13"]);
    // A custom section makes another component of it.
    let mut file = fs::File::options().append(true).open(&module).unwrap();
    file.write_all(&[0, 2, 1, b'x']).unwrap();

    let load = load::during(hermes.address(), || run(&["swap"]));
    assert_eq!(load.modules.len(), 2, "{load:?}");
}
