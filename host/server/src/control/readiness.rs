//! Whether the server is ready for clients, as probes ask.

use std::fmt::Write as _;

use relayer_rest_common::text::escape_control;
use relayer_rest_state::Snapshot;

use crate::registry::{MountState, MountStatus};

/// Returns the response to a probe: `ok`, or a line for each check, in the form of the
/// Kubernetes API server. `Err` means that clients should not be sent to the server.
///
/// Each mount without a module is a check. It fails if the mount is required.
pub(super) fn check(
    snapshot: &Snapshot,
    is_draining: bool,
    mounts: &[MountStatus],
) -> Result<String, String> {
    let state = snapshot.status().value().as_ref().map(drop).map_err(|error| &*error.message);
    let draining = if is_draining { Err("the server is shutting down") } else { Ok(()) };
    let checks = [("state", state), ("draining", draining)];
    let is_ready = checks.iter().all(|(_, result)| result.is_ok());
    let unloaded = mounts.iter().filter(|mount| mount.module().is_none());
    let has_required = unloaded.clone().any(|mount| mount.required);
    if is_ready && unloaded.clone().next().is_none() {
        return Ok("ok".to_owned());
    }
    let mut text = String::new();
    for (name, result) in checks {
        match result {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => writeln!(text, "[-]{name} failed: {}", escape_control(reason)),
        }
        .expect("writing to memory succeeds");
    }
    for mount in unloaded {
        let (mark, result) =
            if mount.required { ("[-]", "failed") } else { ("[+]", "not required") };
        let reason = match &mount.state {
            MountState::Disabled { reason } => format!("disabled: {}", escape_control(reason)),
            _ => "being loaded".to_owned(),
        };
        let name = &mount.name;
        writeln!(text, "{mark}extension/{name} {result}: {reason}")
            .expect("writing to memory succeeds");
    }
    if is_ready && !has_required {
        text += "readyz check passed\n";
        return Ok(text);
    }
    text += "readyz check failed\n";
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::registry::MountStatus;
    use relayer_rest_state::{RelayerState, StatePublisher};
    use serde_json::json;

    #[test]
    fn a_server_is_ready_from_the_first_state_until_it_drains() {
        let publisher = StatePublisher::new();
        let snapshot = || publisher.reader().snapshot();
        let failure = check(&snapshot(), false, &[]).unwrap_err();
        assert!(failure.starts_with("[-]state failed: "), "{failure}");
        assert!(failure.ends_with("\n[+]draining ok\nreadyz check failed\n"), "{failure}");
        publisher.set_state(RelayerState::default());
        assert_eq!(check(&snapshot(), false, &[]), Ok("ok".to_owned()));
        assert_eq!(
            check(&snapshot(), true, &[]).unwrap_err(),
            "[+]state ok\n[-]draining failed: the server is shutting down\nreadyz check failed\n"
        );
    }

    #[test]
    fn only_required_mounts_without_a_module_keep_clients_away() {
        let publisher = StatePublisher::new();
        publisher.set_state(RelayerState::default());
        let mount = |name: &str, required: bool, state: &str| -> MountStatus {
            let mount = json!({
                "name": name, "mount": "/x", "dialect": "any", "required": required,
                "state": state, "reason": "it\ntraps",
                "previous": null, "candidate": null, "quarantined": [], "cache_bytes": 0,
            });
            serde_json::from_value(mount).unwrap()
        };
        let snapshot = publisher.reader().snapshot();
        let optional = [mount("a", false, "loading"), mount("b", false, "disabled")];
        assert_eq!(
            check(&snapshot, false, &optional).unwrap(),
            "[+]state ok\n[+]draining ok\n[+]extension/a not required: being loaded\n\
             [+]extension/b not required: disabled: it\\ntraps\nreadyz check passed\n"
        );
        let required = [mount("a", true, "loading")];
        assert_eq!(
            check(&snapshot, false, &required).unwrap_err(),
            "[+]state ok\n[+]draining ok\n[-]extension/a failed: being loaded\n\
             readyz check failed\n"
        );
    }
}
