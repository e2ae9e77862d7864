//! `relayer-rest status`: shows the modules and connections of a running server.

use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_sandbox::Failures;
use relayer_rest_server::control::{ConnectionStatus, Status};
use relayer_rest_server::registry::MountStatus;

use super::control::ControlArgs;
use super::swap::short;
use super::{CommandOutcome, Failure, block_on, print, print_json};

#[derive(Args)]
pub(super) struct StatusArgs {
    /// Print the status as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &StatusArgs) -> Result<CommandOutcome, Failure> {
    let status = block_on(args.control.client()?.status())??;
    if args.json {
        print_json(&status)?;
    } else {
        print(&text(&status))?;
    }
    Ok(CommandOutcome::Done)
}

fn text(status: &Status) -> Vec<String> {
    let state = if status.ready { "known" } else { "not known" };
    let mut lines = vec![format!(
        "relayer-rest {}, process {}, relayer state {state}",
        status.version, status.pid
    )];
    lines.extend(status.connections.map(|connections| {
        let ConnectionStatus { open, accepted, refused, evicted, unsent } = connections;
        let unsent = ByteSize::b(unsent);
        format!(
            "connections: {open} open, {accepted} accepted, {refused} refused, {evicted} evicted; {unsent} unsent"
        )
    }));
    lines.extend(status.mounts.iter().flat_map(mount));
    lines
}

/// Returns the causes that occurred and their counts, in brackets.
fn causes(failures: &Failures) -> String {
    let Failures { trapped, timed_out, invalid, overloaded, host } = *failures;
    let causes = [
        (trapped, "trapped"),
        (timed_out, "timed out"),
        (invalid, "invalid"),
        (overloaded, "overloaded"),
        (host, "host errors"),
    ];
    let causes = causes.iter().filter(|(count, _)| *count > 0);
    let causes: Vec<_> = causes.map(|(count, cause)| format!("{count} {cause}")).collect();
    if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) }
}

fn mount(mount: &MountStatus) -> Vec<String> {
    let module = &mount.module;
    let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(module.since));
    let mut lines = vec![
        format!("{}  {}@{}", mount.mount, mount.name, short(&module.digest)),
        format!("  dialect {}", mount.dialect),
        format!(
            "  active since {since}: {} runs, {} failures{}",
            module.runs,
            module.failures.module_failures(),
            causes(&module.failures)
        ),
        match module.resets.failed {
            0 => format!(
                "  isolation: {} slots checked, no data of earlier requests",
                module.resets.passed
            ),
            failed => {
                format!(
                    "  ISOLATION FAILURE: data of earlier requests in {failed} slots, which are retired"
                )
            }
        },
        format!("  cached responses: {}", bytesize::ByteSize::b(mount.cache_bytes)),
    ];
    lines.extend(mount.circuit.as_ref().map(|circuit| {
        format!("  circuit open, next probe in {} s: {}", circuit.retry_after, circuit.reason)
    }));
    lines.extend(mount.previous.as_ref().map(|digest| format!("  previous: {}", short(digest))));
    lines.extend(
        mount
            .candidate
            .as_ref()
            .map(|candidate| format!("  candidate: {} (step {})", candidate.name, candidate.step)),
    );
    lines.extend(
        mount
            .quarantined
            .iter()
            .map(|module| format!("  quarantined: {}: {}", short(&module.digest), module.reason)),
    );
    lines
}
