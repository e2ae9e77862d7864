//! `relayer-rest inspect`: describes a module in a registry or in a file.

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_common::files;
use relayer_rest_oci::{Reference, Registries, SignatureStatus};
use relayer_rest_sandbox::{Digest, Grants, LoadError, MAX_COMPONENT_SIZE, PublishedComponent};
use relayer_rest_server::registry::ModuleLocation;
use serde::Serialize;

use super::progress::Progress;
use super::registries::RegistryArgs;
use super::{CommandOutcome, Failure, print, print_json};

#[derive(Args)]
pub(super) struct InspectArgs {
    /// Module to describe: `oci://REGISTRY/REPOSITORY:TAG`,
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, or a file
    module: ModuleLocation,
    #[command(flatten)]
    registries: RegistryArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct Inspection {
    /// The reference with the digest of the manifest, or the file.
    module: String,
    /// The digest of the component.
    digest: Digest,
    /// The size of the component, in bytes.
    size: usize,
    /// The world of the component, if a server can run it.
    world: Option<String>,
    imports: Vec<String>,
    exports: Vec<String>,
    /// The signatures in the registry; none for a file.
    signatures: Vec<SignatureStatus>,
}

pub(super) fn run(args: &InspectArgs) -> Result<CommandOutcome, Failure> {
    let (module, bytes, signatures) = match &args.module {
        ModuleLocation::File(file) => {
            let bytes = files::read(file, MAX_COMPONENT_SIZE)
                .map_err(|source| LoadError::Unreadable { file: file.clone(), source })?;
            (args.module.to_string(), bytes, None)
        }
        ModuleLocation::Registry(reference) => {
            let (reference, bytes, signatures) = describe(args, reference)?;
            (reference.to_string(), bytes, Some(signatures))
        }
    };
    let published = PublishedComponent::read(&module, &bytes)?;
    let report = Inspection {
        digest: Digest::new(&bytes),
        size: bytes.len(),
        world: published.world(),
        imports: published.imports,
        exports: published.exports,
        signatures: signatures.clone().unwrap_or_default(),
        module,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&lines(&report, signatures.is_some()))?;
    }
    Ok(CommandOutcome::Done)
}

fn describe(
    args: &InspectArgs,
    reference: &Reference,
) -> Result<(Reference, Vec<u8>, Vec<SignatureStatus>), Failure> {
    let settings = args.registries.settings()?;
    let progress = Progress::new(1);
    progress.step(format!("pulling {reference}"));
    let described = Registries::new(&settings).describe(reference, MAX_COMPONENT_SIZE)?;
    Ok((described.reference, described.component, described.signatures))
}

fn lines(report: &Inspection, is_in_registry: bool) -> Vec<String> {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let world = report.world.as_deref().unwrap_or("unknown; no server can run it");
    let mut lines = vec![
        format!("module     {}", report.module),
        format!("digest     {}", report.digest),
        format!("size       {}", ByteSize::b(report.size as u64)),
        format!("world      {world}"),
        format!("imports    {}", list(&report.imports)),
        format!("exports    {}", list(&report.exports)),
        format!("needs      {} (as an extension)", Grants::needed(&report.imports).as_setting()),
    ];
    if is_in_registry && report.signatures.is_empty() {
        lines.push("signature  none".to_owned());
    }
    for SignatureStatus { signer } in &report.signatures {
        lines.push(match signer {
            Some(signer) => format!("signature  by {signer}, verified"),
            None => "signature  by none of the signers in the settings".to_owned(),
        });
    }
    lines
}
