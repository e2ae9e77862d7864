//! Does the example of a relayer that serves its own state run?

use std::process::Command;

#[test]
fn the_example_runs_and_shows_what_the_relayer_does() {
    let output = Command::new(env!("CARGO_BIN_EXE_embedded-under-test")).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let bodies: Vec<_> =
        stdout.lines().skip(1).map(|line| &line[line.find('{').unwrap()..]).collect();
    let packet = r#""Packet":[{"id":2,"object":{"type":"Packet","dst_chain_id":"ibc-1","src_chain_id":"ibc-0","src_channel_id":"channel-0","src_port_id":"transfer"}}]"#;
    let client = r#""Client":[{"id":1,"object":{"type":"Client","dst_chain_id":"ibc-1","dst_client_id":"07-tendermint-0","src_chain_id":"ibc-0"}}]"#;
    let state = |workers: &str| {
        format!(
            r#"{{"status":"success","result":{{"chains":["ibc-0","ibc-1"],"workers":{{{workers}}}}}}}"#
        )
    };
    assert_eq!(
        bodies,
        [
            r#"{"status":"error","result":{"name":"NotReady","msg":"the relayer's state is not known yet"}}"#.to_owned(),
            state(&format!("{client},{packet}")),
            state(packet),
        ]
    );
}
