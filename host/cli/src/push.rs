//! `relayer-rest push`: pushes a module to a registry, as `wkg oci push` does.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueHint};
use relayer_rest_common::files;
use relayer_rest_oci::{Reference, Registries, World};
use relayer_rest_sandbox::{Digest, LoadError, MAX_COMPONENT_SIZE, PublishedComponent};
use serde::Serialize;

use super::progress::Progress;
use super::registries::RegistryArgs;
use super::{CommandOutcome, Failure, print, print_json};

/// The variable with the time of a reproducible build, in seconds since 1970.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

#[derive(Args)]
pub(super) struct PushArgs {
    /// Component to push
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Its name in the registry: `oci://REGISTRY/REPOSITORY:TAG`
    reference: Reference,
    #[command(flatten)]
    registries: RegistryArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct PushReport {
    /// The reference, with the digest of the manifest.
    reference: Reference,
    /// The digest of the component.
    digest: Digest,
}

pub(super) fn run(args: &PushArgs) -> Result<CommandOutcome, Failure> {
    let settings = args.registries.settings()?;
    let bytes = files::read(&args.file, MAX_COMPONENT_SIZE)
        .map_err(|source| LoadError::Unreadable { file: args.file.clone(), source })?;
    let name = args.file.display().to_string();
    let PublishedComponent { bytes, imports, exports } = PublishedComponent::read(&name, &bytes)?;
    let progress = Progress::new(1);
    progress.step(format!("pushing {}", args.reference));
    let world = World { imports, exports };
    let created = created()?;
    let pushed = Registries::new(&settings).push(&args.reference, &bytes, &world, created)?;
    drop(progress);
    let report = PushReport { reference: pushed, digest: Digest::new(&bytes) };
    if args.json {
        print_json(&report)?;
    } else {
        print(&[format!("pushed: {}", report.reference), format!("{}  {name}", report.digest)])?;
    }
    Ok(CommandOutcome::Done)
}

/// Returns the time of creation, which a reproducible build sets.
fn created() -> Result<SystemTime, Failure> {
    let Some(text) = env::var_os(SOURCE_DATE_EPOCH).filter(|text| !text.is_empty()) else {
        return Ok(SystemTime::now());
    };
    let seconds = text.to_str().and_then(|text| text.parse::<u32>().ok());
    let seconds = seconds.ok_or_else(|| {
        format!("{SOURCE_DATE_EPOCH}: {} is not a number of seconds", text.display())
    })?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()))
}
