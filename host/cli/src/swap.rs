//! `relayer-rest swap`: replaces the module of a running server.
//!
//! | file | job |
//! |---|---|
//! | `shadow.rs` | the options of a shadow, its progress, and its report |

mod shadow;

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use relayer_rest_conformance::{Dialect, Verdict};
use relayer_rest_sandbox::Digest;
use relayer_rest_server::control::ControlClientError;
use relayer_rest_server::registry::{
    Candidate, ModuleLocation, RegistryAccess, Rejection, ResponseDifference, Source, SwapOutcome,
    SwapReport,
};
use serde::Serialize;

use super::capsules::{self, StoredFailure};
use super::control::ControlArgs;
use super::progress::Progress;
use super::{CommandOutcome, Failure, block_on, print, print_json, project};
use shadow::{ShadowArgs, ShadowRequest};
pub(super) use shadow::{expected, status_text};

#[derive(Args)]
pub(super) struct SwapArgs {
    /// Component to swap in: a file, the folder of a module that is built, or
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, which the server pulls
    #[arg(value_name = "MODULE")]
    module: ModuleLocation,
    /// Path of the mount
    #[arg(long, value_name = "PATH", default_value = "/")]
    mount: String,
    /// Expected SHA-256 digest of the component
    #[arg(long, value_name = "DIGEST")]
    sha256: Option<Digest>,
    /// Signer of a component from a registry, whose key is in the settings of the
    /// server [default: the one of the mount]
    #[arg(long, value_name = "NAME")]
    signer: Option<String>,
    /// Dialect of the API that it must conform to: 0.7, 1.13 or any
    /// [default: the server's]
    #[arg(long, value_name = "NAME")]
    dialect: Option<Dialect>,
    /// Show which responses would change, without swapping
    #[arg(long)]
    dry_run: bool,
    /// Folder of capsules: with --dry-run, repeat the failures of the mount with
    /// this component, and exit with status 1 if one remains
    #[arg(long, value_name = "DIR", requires = "dry_run", value_hint = ValueHint::DirPath)]
    capsules: Option<PathBuf>,
    /// Accept a quarantined component
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    shadow: ShadowArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &SwapArgs) -> Result<CommandOutcome, Failure> {
    let module = project::locate(&args.module)?;
    let shadow = args.shadow.request(&file_name(&module))?;
    let access = RegistryAccess { signer: args.signer.clone(), ..RegistryAccess::default() };
    let candidate = Candidate {
        sha256: args.sha256,
        dialect: args.dialect,
        dry_run: args.dry_run,
        force: args.force,
        shadow: shadow.as_ref().map(|request| request.shadow.clone()),
        ..Candidate::new(Source::new(module.clone(), &access))
    };
    let client = args.control.client()?;
    let progress = Progress::new(1);
    progress.step(format!("preflight of {module} by the server"));
    let swapped = match &shadow {
        Some(_) => shadow::swap(&client, &args.mount, candidate, &progress)?,
        None => block_on(client.swap(&args.mount, candidate))?,
    };
    drop(progress);
    let report = match swapped {
        Err(ControlClientError::TooLarge(message)) => {
            let message = format!("mount {}: {message}", args.mount);
            if args.json {
                print_json(&SwapOutcome::Rejected { reason: Rejection::TooLarge, message })?;
            } else {
                print(&[format!("rejected: {message}")])?;
            }
            return Ok(CommandOutcome::Rejected);
        }
        report => report?,
    };
    if let Some(shadow) = &shadow {
        shadow.write(&report)?;
    }
    let replayed = args.capsules.as_deref().filter(|_| report.is_accepted());
    let replayed = replayed.map(|folder| replay_failures(folder, args, &module)).transpose()?;
    let has_failures = replayed.iter().flatten().any(StoredFailure::remains);
    if args.json {
        print_json(&Report { report: &report, capsules: replayed.as_deref() })?;
    } else {
        let mut lines = text(&report);
        lines.extend(shadow.as_ref().map(ShadowRequest::line));
        lines.extend(replayed.as_deref().map(capsules::text).unwrap_or_default());
        print(&lines)?;
    }
    let is_accepted = report.is_accepted() && !has_failures;
    Ok(if is_accepted { CommandOutcome::Done } else { CommandOutcome::Rejected })
}

/// Repeats the stored failures of the mount, in this process.
fn replay_failures(
    folder: &Path,
    args: &SwapArgs,
    module: &ModuleLocation,
) -> Result<Vec<StoredFailure>, Failure> {
    let (name, component) = capsules::read_component(module)?;
    capsules::replay_all(folder, (&name, &component), Some(&args.mount))
}

/// The report of a swap, and the stored failures that were repeated for a dry run.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    report: &'a SwapReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    capsules: Option<&'a [StoredFailure]>,
}

/// Returns the file of a module, or the name that one from a registry would have.
fn file_name(module: &ModuleLocation) -> PathBuf {
    match module {
        ModuleLocation::File(file) => file.clone(),
        ModuleLocation::Registry(reference) => {
            let name = reference.repository().rsplit('/').next();
            name.unwrap_or_default().into()
        }
    }
}

fn text(report: &SwapReport) -> Vec<String> {
    let mut lines = Vec::new();
    for step in &report.steps {
        lines.push(format!("{:<10}{:>10.1} ms", step.step.to_string(), step.millis));
    }
    // A single broken rule is the reason that is given below.
    let broken: Vec<_> = report.verdict.iter().flat_map(Verdict::failures).collect();
    if broken.len() > 1 {
        for failed in broken {
            let failure = failed.failure.as_deref().unwrap_or_default();
            lines.push(format!("rule {}: {failure}", failed.rule));
        }
    }
    lines.extend(differences(report));
    lines.extend(report.shadow.iter().flat_map(shadow::lines));
    let from = report.from.as_deref().map(short);
    let to = report.to.as_deref().map_or("", short);
    match (&report.outcome, from) {
        (SwapOutcome::Swapped, Some(from)) => lines.push(format!("swapped: {from} -> {to}")),
        (SwapOutcome::Swapped, None) => lines.push(format!("enabled: {to}")),
        // The circuit of this module is open.
        (SwapOutcome::DryRun, Some(from)) if from == to => {
            lines.push(format!("dry run: the circuit of {from} would close"));
        }
        (SwapOutcome::DryRun, Some(from)) => {
            lines.push(format!("dry run: {to} would replace {from}"));
        }
        (SwapOutcome::DryRun, None) => lines.push(format!("dry run: {to} would be enabled")),
        (SwapOutcome::Unchanged, _) => lines.push(format!("unchanged: {to} is active already")),
        (SwapOutcome::CircuitClosed, _) => lines.push(format!("circuit closed: {to}")),
        (SwapOutcome::Rejected { message, reason }, from) => {
            lines.push(format!("rejected: {message}"));
            // The rejected module may be the active one, whose circuit is open.
            if from != Some(to) || *reason != Rejection::Failures {
                let stays = from.map(|from| format!("{from} stays active"));
                lines.push(stays.unwrap_or("the mount has no module".to_owned()));
            }
        }
    }
    lines
}

/// Returns the differences between the responses of two modules.
pub(super) fn differences(report: &SwapReport) -> Vec<String> {
    let mut lines = Vec::new();
    let has_candidate = report.from.is_some()
        && matches!(report.outcome, SwapOutcome::Swapped | SwapOutcome::DryRun);
    match report.compared {
        0 if has_candidate => lines.push("no requests of clients to compare".to_owned()),
        0 => {}
        compared => {
            let different = report.differences.len();
            lines.push(format!("{different} of {compared} requests have different responses"));
        }
    }
    lines.extend(report.differences.iter().flat_map(difference));
    lines
}

fn difference(difference: &ResponseDifference) -> Vec<String> {
    let count = match difference.count {
        0 => "not sent by clients".to_owned(),
        1 => "sent once".to_owned(),
        count => format!("sent {count} times"),
    };
    let mut lines = vec![format!("  {} ({count})", difference.request)];
    lines.extend(difference.changes.iter().map(|change| format!("    {}", change.describe())));
    lines
}

/// Returns the start of a digest, which identifies a module in practice.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
