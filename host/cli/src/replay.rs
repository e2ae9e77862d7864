//! `relayer-rest replay`: repeats the run of a capsule.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use relayer_rest_sandbox::{DebugOutput, Digest, Outcome, Replay};
use relayer_rest_server::registry::ModuleLocation;
use serde::Serialize;

use super::progress::Progress;
use super::{CommandOutcome, Failure, block_on, capsules, print, print_json};

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// Capsule of the request
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Module to run instead of the recorded one, which is a bundled module or
    /// `SHA256.wasm` beside the capsule: a file, or the folder of a module that is built
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    module: Option<ModuleLocation>,
    /// Write a core dump of the trap, such as for wasmgdb
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    core: Option<PathBuf>,
    /// Write a profile for the profiler of Firefox, with a
    /// sample every millisecond
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct ReplayReport {
    capsule: PathBuf,
    /// The id of the request.
    id: String,
    /// The path of the mount.
    mount: String,
    /// The method and the target of the request.
    request: String,
    /// The digests of the recorded module and of the one that was run.
    recorded_module: Digest,
    module: Digest,
    recorded: Outcome,
    replayed: Outcome,
    identical: bool,
    /// The reads of another module whose values the capsule does not have.
    missing: Vec<String>,
    /// The masked parts of the request and of the values.
    redacted: Vec<String>,
}

pub(super) fn run(args: &ReplayArgs) -> Result<CommandOutcome, Failure> {
    let capsule = capsules::read(&args.file)?;
    let (name, component) = capsules::component(&capsule, &args.file, args.module.as_ref())?;
    let progress = Progress::new(2);
    progress.step(format!("compiling {name}"));
    let module = capsules::load(&capsule, &name, &component)?;
    progress.step("running it".to_owned());
    let mut debug = DebugOutput::default();
    if args.core.is_some() {
        debug = debug.with_core_dump();
    }
    if args.profile.is_some() {
        debug = debug.with_profile();
    }
    let replay = block_on(capsule.replay(&module, &debug))??;
    drop(progress);
    let replay = replay.map_err(|error| format!("module {name}: {error}"))?;
    if let Some(file) = &args.core {
        let dump = debug.core_dump().ok_or_else(|| {
            format!(
                "core dump {}: not written: the run did not trap after its instance was created; remove --core",
                file.display()
            )
        })?;
        write(file, &dump)?;
    }
    if let Some((file, profile)) = args.profile.as_ref().zip(debug.profile()) {
        write(file, &profile)?;
    }
    let Replay { outcome, is_same, is_same_module, missing } = replay;
    let report = ReplayReport {
        capsule: args.file.clone(),
        id: capsule.id().to_owned(),
        mount: capsule.mount().to_owned(),
        request: capsule.summary(),
        recorded_module: capsule.digest(),
        module: module.digest(),
        recorded: capsule.outcome().clone(),
        identical: is_same,
        missing,
        redacted: capsule.redacted().to_vec(),
        replayed: outcome,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    // Of another module, a response is expected instead of the recorded failure.
    let is_as_expected =
        if is_same_module { is_same } else { is_same || !report.replayed.is_failure() };
    Ok(if is_as_expected { CommandOutcome::Done } else { CommandOutcome::Rejected })
}

/// Writes a file that only the user can read: it has the memory of the module.
fn write(file: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(content));
    written.map_err(|error| format!("{}: cannot be written: {error}", file.display()).into())
}

fn text(report: &ReplayReport) -> Vec<String> {
    let mut lines = vec![
        format!("request   {} at {}, id {}", report.request, report.mount, report.id),
        format!("recorded  {}, module {}", report.recorded, report.recorded_module.short()),
        format!("replayed  {}, module {}", report.replayed, report.module.short()),
    ];
    if !report.redacted.is_empty() {
        lines.push(format!("masked    {}", report.redacted.join(", ")));
    }
    for read in &report.missing {
        lines.push(format!("missing   {read}: the recorded module did not read it"));
    }
    lines.push(if report.identical { "identical" } else { "different" }.to_owned());
    if !report.identical
        && let Some(body) = report.replayed.body()
    {
        lines.push(String::new());
        lines.push(String::from_utf8_lossy(&body).into_owned());
    }
    lines
}
