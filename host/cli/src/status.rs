//! `relayer-rest status`: shows the modules and connections of a running server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_sandbox::Failures;
use relayer_rest_server::LiveStatus;
use relayer_rest_server::control::{
    ConnectionStatus, FleetMembership, SourceFailureStatus, SourceStatus, Status,
};
use relayer_rest_server::registry::{CircuitStatus, ModuleStatus, MountState, MountStatus};

use super::control::ControlArgs;
use super::swap::{short, status_text};
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
    let state = relayer_state(status.not_ready.as_deref(), status.stale_since);
    let mut lines =
        vec![format!("relayer-rest {}, process {}, {state}", status.version, status.pid)];
    lines.extend(status.sources.iter().map(source));
    lines.extend(status.fleet.map(fleet));
    lines.extend(status.connections.as_ref().map(connections));
    lines.extend(status.connections.as_ref().and_then(live));
    lines.extend(status.mounts.iter().flat_map(mount));
    lines
}

/// Returns whether the relayer's state is known, as a text.
pub(super) fn relayer_state(not_ready: Option<&str>, stale_since: Option<u64>) -> String {
    match (not_ready, stale_since) {
        (Some(reason), _) => format!("relayer state not known: {reason}"),
        (None, Some(since)) => format!("relayer state stale, confirmed {}", ago(since)),
        (None, None) => "relayer state known".to_owned(),
    }
}

/// Returns the generation of a fleet, as a line.
fn fleet(fleet: FleetMembership) -> String {
    match fleet.generation {
        Some(generation) => format!("fleet: generation {generation}"),
        None => "fleet: no generation yet, or standing by".to_owned(),
    }
}

/// Returns the connections of clients, as a line.
pub(super) fn connections(connections: &ConnectionStatus) -> String {
    let ConnectionStatus { open, accepted, refused, evicted, unsent, draining, live: _ } =
        *connections;
    let unsent = ByteSize::b(unsent);
    let draining = if draining { "; shutting down" } else { "" };
    format!(
        "connections: {open} open, {accepted} accepted, {refused} refused, {evicted} evicted; {unsent} unsent{draining}"
    )
}

/// Returns the clients that wait for the next version of a response, as a line, if there was one
/// since the start.
pub(super) fn live(connections: &ConnectionStatus) -> Option<String> {
    let LiveStatus { waiters, entries, bytes, runs, unchanged_runs, wakeups, refused } =
        connections.live;
    let bytes = ByteSize::b(bytes);
    let line = format!(
        "live: waiters {waiters}, responses {entries} ({bytes}), runs {runs} ({unchanged_runs} without a change), wake-ups {wakeups}, refused {refused}"
    );
    (connections.live != LiveStatus::default()).then_some(line)
}

/// Returns a source and its failure, as a line.
pub(super) fn source(source: &SourceStatus) -> String {
    let SourceStatus { kind, location, last_response, failure } = source;
    let kind = match kind.as_str() {
        "sample" => "a sample, not a relayer",
        "relayer" => "the relayer of this process",
        kind => kind,
    };
    let name = format!("source: {kind} {location}");
    let failure = failure.as_ref().map(|SourceFailureStatus { message, since }| {
        let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(*since));
        format!(", FAILED since {since}: {message}")
    });
    let last = last_response
        .map_or("no response yet".to_owned(), |time| format!("last response {}", ago(time)));
    format!("{}{}; {last}", name.trim_end(), failure.unwrap_or_default())
}

/// Returns the time since a time in seconds since 1970.
fn ago(time: u64) -> String {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(time));
    let seconds = elapsed.unwrap_or_default().as_secs();
    format!("{} ago", humantime::format_duration(Duration::from_secs(seconds)))
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
    let digest = mount.module().map(|module| format!("@{}", short(&module.digest)));
    let mut lines = vec![
        format!("{}  {}{}", mount.mount, mount.name, digest.unwrap_or_default()),
        format!("  dialect {}", mount.dialect),
    ];
    match &mount.state {
        MountState::Loading => {
            lines.push("  loading: its module is compiled and checked".to_owned());
        }
        MountState::Disabled { reason } => lines.push(format!("  DISABLED: {reason}")),
        MountState::Active { module, circuit } => {
            lines.extend(active(module));
            lines.push(format!("  cached responses: {}", ByteSize::b(mount.cache_bytes)));
            lines.extend(circuit.as_ref().map(|CircuitStatus { retry_after, reason }| {
                format!("  circuit open, next probe in {retry_after} s: {reason}")
            }));
        }
    }
    lines.extend(mount.previous.as_ref().map(|digest| format!("  previous: {}", short(digest))));
    lines.extend(
        mount
            .candidate
            .as_ref()
            .map(|candidate| format!("  candidate: {} (step {})", candidate.name, candidate.step)),
    );
    let shadow = mount.candidate.as_ref().and_then(|candidate| candidate.shadow.as_ref());
    lines.extend(shadow.map(|shadow| format!("  shadow: {}", status_text(shadow))));
    lines.extend(
        mount
            .quarantined
            .iter()
            .map(|module| format!("  quarantined: {}: {}", short(&module.digest), module.reason)),
    );
    lines
}

/// Returns the lines of an active module.
fn active(module: &ModuleStatus) -> [String; 2] {
    let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(module.since));
    let isolation = match module.resets.failed {
        0 => format!(
            "  isolation: {} slots checked, no data of earlier requests",
            module.resets.passed
        ),
        failed => format!(
            "  ISOLATION FAILURE: data of earlier requests in {failed} slots, which are retired"
        ),
    };
    [
        format!(
            "  active since {since}: {} runs, {} failures{}",
            module.runs,
            module.failures.module_failures(),
            causes(&module.failures)
        ),
        isolation,
    ]
}
