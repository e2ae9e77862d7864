//! `relayer-rest pull`: writes a module of a registry to a file.

use std::path::PathBuf;

use clap::Args;
use relayer_rest_oci::{Reference, Registries, SignaturePolicy};
use relayer_rest_sandbox::{Digest, MAX_COMPONENT_SIZE};
use serde::Serialize;

use super::progress::Progress;
use super::registries::RegistryArgs;
use super::{CommandOutcome, Failure, module, print, print_json};

#[derive(Args)]
pub(super) struct PullArgs {
    /// Module to pull: `oci://REGISTRY/REPOSITORY:TAG`, or @sha256:DIGEST
    /// instead of the tag
    reference: Reference,
    /// File to write
    file: PathBuf,
    /// Signer whose signature the module must have [default: any of the
    /// settings, if they require a signature]
    #[arg(long, value_name = "NAME")]
    signer: Option<String>,
    #[command(flatten)]
    registries: RegistryArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct PullReport {
    /// The reference, with the digest of the manifest.
    reference: Reference,
    file: PathBuf,
    /// The digest of the component.
    digest: Digest,
    /// The signer whose signature was verified.
    signer: Option<String>,
}

pub(super) fn run(args: &PullArgs) -> Result<CommandOutcome, Failure> {
    let settings = args.registries.settings()?;
    let policy = settings.policy(args.signer.as_deref());
    let registries = Registries::new(&settings);
    let progress = Progress::new(1);
    progress.step(format!("pulling {}", args.reference));
    // The report has the digest, so that the next pull can name it.
    let pinned = match policy {
        SignaturePolicy::Optional => registries.resolve(&args.reference)?,
        _ => args.reference.clone(),
    };
    let pulled = registries.pull(&pinned, &policy, MAX_COMPONENT_SIZE)?;
    drop(progress);
    module::write_new(&args.file, &pulled.component)?;
    let report = PullReport {
        reference: pulled.reference,
        file: args.file.clone(),
        digest: Digest::new(&pulled.component),
        signer: pulled.signer,
    };
    if args.json {
        print_json(&report)?;
        return Ok(CommandOutcome::Done);
    }
    let mut lines = vec![format!("pulled: {}", report.reference)];
    lines.extend(report.signer.map(|signer| format!("signed by {signer}")));
    lines.push(format!("{}  {}", report.digest, report.file.display()));
    print(&lines)?;
    Ok(CommandOutcome::Done)
}
