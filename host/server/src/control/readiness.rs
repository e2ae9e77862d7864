//! Whether the server is ready for clients, as probes ask.

use std::fmt::Write as _;

use relayer_rest_common::text::escape_control;
use relayer_rest_state::Snapshot;

/// Returns `Ok` if clients should be sent to the server, and a line for each check
/// otherwise, in the form of the Kubernetes API server.
pub(super) fn check(snapshot: &Snapshot, is_draining: bool) -> Result<(), String> {
    let state = snapshot.status().value().as_ref().map(drop).map_err(|error| &*error.message);
    let draining = if is_draining { Err("the server is shutting down") } else { Ok(()) };
    let checks = [("state", state), ("draining", draining)];
    if checks.iter().all(|(_, result)| result.is_ok()) {
        return Ok(());
    }
    let mut text = String::new();
    for (name, result) in checks {
        match result {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => writeln!(text, "[-]{name} failed: {}", escape_control(reason)),
        }
        .expect("writing to memory succeeds");
    }
    text += "readyz check failed\n";
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::check;
    use relayer_rest_state::{RelayerState, StatePublisher};

    #[test]
    fn a_server_is_ready_from_the_first_state_until_it_drains() {
        let publisher = StatePublisher::new();
        let snapshot = || publisher.reader().snapshot();
        let failure = check(&snapshot(), false).unwrap_err();
        assert!(failure.starts_with("[-]state failed: "), "{failure}");
        assert!(failure.ends_with("\n[+]draining ok\nreadyz check failed\n"), "{failure}");
        publisher.set_state(RelayerState::default());
        assert_eq!(check(&snapshot(), false), Ok(()));
        assert_eq!(
            check(&snapshot(), true).unwrap_err(),
            "[+]state ok\n[-]draining failed: the server is shutting down\nreadyz check failed\n"
        );
    }
}
