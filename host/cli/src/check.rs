//! `relayer-rest check`: checks a module before its author publishes it.
//!
//! | file | job |
//! |---|---|
//! | `text.rs` | the report as text |

mod text;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use bytesize::ByteSize;
use clap::{Args, ValueHint};
use relayer_rest_conformance as conformance;
use relayer_rest_conformance::{Dialect, Reference, Verdict};
use relayer_rest_sandbox::{
    API, Digest, Engine, EngineOptions, Grants, HeaderGrants, InstanceCost, Limits,
    MAX_COMPONENT_SIZE, Module,
};
use relayer_rest_server::config::Config;
use relayer_rest_server::registry::{
    ModuleLocation, MountPath, References, RegistryAccess, Source,
};
use relayer_rest_sources::hermes_config::HermesConfig;
use relayer_rest_state::{RelayerState, Snapshot, StatePublisher};
use serde::Serialize;
use tokio::time::timeout;

use super::capsules::{self, StoredFailure};
use super::exercise::{Exercise, RequestsArgs, exercise, sample_state};
use super::grant_args::GrantArgs;
use super::progress::Progress;
use super::{
    CommandOutcome, Failure, block_on, code_cache, compile, mounts, print, print_json, project,
};

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Component to check: a file, the folder of a module that is built, or
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`
    #[arg(value_name = "MODULE")]
    module: ModuleLocation,
    /// Path of the mount; at another one than /, the module is checked as an
    /// extension [default: /]
    #[arg(long, value_name = "PATH")]
    mount: Option<MountPath>,
    /// Dialect of the API that a module at / must conform to: 0.7, 1.13 or any
    /// [default: 0.7]
    #[arg(long, value_name = "NAME")]
    dialect: Option<Dialect>,
    /// Configuration of a relayer whose chains are requested, too
    #[arg(long, value_name = "FILE")]
    relayer_config: Option<PathBuf>,
    /// Settings of relayer-rest with the limits to check against
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of capsules: the module must not fail at the requests at which
    /// others failed, with --mount those of this mount
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    capsules: Option<PathBuf>,
    #[command(flatten)]
    requests: RequestsArgs,
    #[command(flatten)]
    grants: GrantArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The report of the command.
#[derive(Serialize)]
struct CheckReport {
    module: String,
    /// The path of its mount.
    mount: MountPath,
    digest: Option<Digest>,
    /// The size of the component, in bytes.
    size: usize,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// Whether some of them belong to WASI, which a mount must allow.
    wasi: bool,
    /// The cost of creating an instance.
    instance: Option<Instance>,
    passes: bool,
    /// The reason why the module is refused, apart from its verdict.
    error: Option<String>,
    verdict: Option<Verdict>,
    /// The routes of the module, and the requests of its author.
    #[serde(flatten)]
    exercise: Option<Exercise>,
    /// The stored failures, repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    capsules: Option<Vec<StoredFailure>>,
}

/// The cost of creating an instance, in bytes, and its limit.
#[derive(Serialize)]
struct Instance {
    #[serde(flatten)]
    cost: InstanceCost,
    total: u64,
    limit: u64,
}

impl Instance {
    fn new(cost: InstanceCost, limits: &Limits) -> Self {
        Self { total: cost.total(), limit: limits.memory.as_u64(), cost }
    }
}

/// The mount for which a module is checked.
struct TargetMount<'a> {
    /// The name of its modules in logs.
    name: &'a str,
    path: MountPath,
    /// The dialect of the API; none for an extension.
    dialect: Option<Dialect>,
    limits: Limits,
    headers: HeaderGrants,
    /// The grants in the settings of an extension, and whether WASI is allowed; none without
    /// settings.
    allowed: Option<(Grants, bool)>,
}

impl<'a> TargetMount<'a> {
    /// Returns the mount with this path, with its settings if there are some.
    fn new(args: &'a CheckArgs, config: &'a Config) -> Result<Self, Failure> {
        let path = args.mount.clone().unwrap_or_else(MountPath::root);
        if path == MountPath::root() {
            return Ok(Self {
                name: API,
                path,
                dialect: Some(args.dialect.unwrap_or_default()),
                limits: config.module.limits.clone(),
                headers: config.module.headers.clone(),
                allowed: None,
            });
        }
        if let Some(dialect) = args.dialect {
            return Err(format!(
                "--dialect {dialect}: only the API has a dialect, and --mount {path} is an extension; remove one of them"
            )
            .into());
        }
        let extension = config.extension.iter().find(|extension| extension.path() == path);
        let name = extension.map(|extension| extension.name.as_str());
        let of_path = args.mount.as_ref().map_or("", MountPath::as_str);
        Ok(Self {
            name: name.unwrap_or_else(|| mounts::module_name(of_path)),
            allowed: extension.map(|extension| (extension.granted(), extension.wasi)),
            path,
            dialect: None,
            limits: extension.map(|extension| extension.limits.clone()).unwrap_or_default(),
            headers: extension.map(|extension| extension.headers.clone()).unwrap_or_default(),
        })
    }

    /// Returns the settings that the mount lacks for a module with these imports.
    fn lacking(&self, imports: &[String]) -> Option<String> {
        let (grants, wasi) = self.allowed.as_ref()?;
        let path = &self.path;
        let needed = Grants::needed(imports);
        if !grants.includes(&needed) {
            let needed = needed.as_setting();
            return Some(format!("imports more than mount {path} grants; set {needed} there"));
        }
        let imports_wasi = imports.iter().any(|import| import.starts_with("wasi:"));
        (imports_wasi && !wasi).then(|| {
            format!("imports WASI, which mount {path} does not allow; set wasi = true there")
        })
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<CommandOutcome, Failure> {
    let config = args.config.as_deref().map(Config::read).transpose()?;
    let config = config.unwrap_or_default();
    let mount = TargetMount::new(args, &config)?;
    let requests = args.requests.read(args.module.file())?;
    let location = project::locate(&args.module)?;
    let present = args.relayer_config.as_deref().map(relayer_state).transpose()?;
    // WASI and all grants are allowed here; the report lists the ones that a mount must
    // allow.
    let compiler = Some(compile::compiler());
    let headers = args.grants.headers()?.unwrap_or_else(|| mount.headers.clone());
    // A server that loads this module next finds its code there.
    let code_cache = code_cache::open(&config.code_cache)?;
    let options =
        EngineOptions { headers, wasi: true, code_cache, compiler, ..(&mount.limits).into() };
    let engine = Engine::with(options)?;
    let name = location.to_string();
    let access = RegistryAccess { settings: config.registries.clone(), signer: None };
    let bytes = Source::new(location, &access).read(ByteSize::b(MAX_COMPONENT_SIZE));
    let bytes = bytes.map_err(|(_, message)| format!("module {name}: {message}"));
    let mut report = CheckReport {
        digest: bytes.as_ref().ok().map(|bytes| Digest::new(bytes)),
        size: bytes.as_ref().map_or(0, Bytes::len),
        imports: Vec::new(),
        wasi: false,
        instance: None,
        passes: false,
        error: None,
        verdict: None,
        exercise: None,
        capsules: None,
        module: name.clone(),
        mount: mount.path.clone(),
    };
    let progress = Progress::new(if args.capsules.is_some() { 4 } else { 3 });
    progress.step(format!("compiling {name}"));
    let module = match &bytes {
        Ok(bytes) => compiled(&engine, &name, bytes, &config)?,
        Err(error) => Err(error.clone()),
    };
    match module {
        Err(error) => report.error = Some(error),
        Ok(module) => {
            let module = module.named(mount.name).mounted_at(mount.path.as_str());
            report.imports = module.imports();
            report.instance = Some(Instance::new(*module.instance_cost(), &mount.limits));
            report.wasi = report.imports.iter().any(|import| import.starts_with("wasi:"));
            let references = References::new(engine);
            let probed = async {
                progress.step("comparing responses with the reference");
                let reference = match mount.dialect {
                    Some(dialect) => references.get(dialect, &[&module]).await?,
                    None => Reference::Extension,
                };
                let mut verdict = conformance::probe(&module, reference, present.clone()).await?;
                let mut exercised = None;
                if !verdict.fails_to_respond() {
                    progress.step("exercising the routes of the module");
                    let snapshot = present.unwrap_or_else(sample_state);
                    let (result, of_document) = exercise(&module, &requests, &snapshot).await;
                    verdict.rules.extend(of_document);
                    exercised = Some(result);
                }
                Ok::<_, Box<dyn Error>>((verdict, exercised))
            };
            match block_on(async { timeout(config.swap.time, probed).await })? {
                Ok(Ok((verdict, exercised))) => {
                    let failures = exercised.as_ref().map_or(0, Exercise::failures);
                    report.passes = verdict.passes() && failures == 0;
                    report.verdict = Some(verdict);
                    report.exercise = exercised;
                }
                Ok(Err(error)) => report.error = Some(error.to_string()),
                Err(_) => report.error = Some(too_slow(&name, &config)),
            }
        }
    }
    if let (Some(folder), Ok(component), None) = (&args.capsules, &bytes, &report.error) {
        progress.step("repeating the stored failures".to_owned());
        let path = args.mount.as_ref().map(MountPath::as_str);
        let replayed = capsules::replay_all(folder, (&name, component), path)?;
        report.passes &= !replayed.iter().any(StoredFailure::remains);
        report.capsules = Some(replayed);
    }
    drop(progress);
    if report.error.is_none()
        && let Some(lacking) = mount.lacking(&report.imports)
    {
        report.error = Some(format!("module {name}: {lacking}"));
        report.passes = false;
    }
    if report.error.is_none() && report.size as u64 > config.swap.size.as_u64() {
        let max = config.swap.size;
        report.error = Some(format!(
            "module {name}: larger than {max}; raise swap.size, or servers reject it"
        ));
        report.passes = false;
    }
    if args.json {
        print_json(&report)?;
    } else {
        print(&text::lines(&report, &config, &mount))?;
    }
    Ok(if report.passes { CommandOutcome::Done } else { CommandOutcome::Rejected })
}

/// Compiles a module within the time of a swap.
fn compiled(
    engine: &Engine,
    name: &str,
    bytes: &Bytes,
    config: &Config,
) -> Result<Result<Module, String>, Failure> {
    let module = Module::from_untrusted_bytes(engine, name, bytes, config.swap.memory);
    let module = block_on(async { timeout(config.swap.time, module).await })?;
    Ok(match module {
        Ok(module) => module.map_err(|error| error.to_string()),
        Err(_) => Err(too_slow(name, config)),
    })
}

fn too_slow(name: &str, config: &Config) -> String {
    let time = config.swap.time;
    format!(
        "module {name}: no result within {time:?}; raise swap.time in a file of settings, and name it with --config"
    )
}

/// Returns the state of a relayer with this configuration, whose chains are connected.
fn relayer_state(file: &Path) -> Result<Arc<Snapshot>, Failure> {
    let publisher = StatePublisher::new();
    let config = HermesConfig::read(file)?;
    let ids = config.chains.iter().map(|chain| chain.id.clone()).collect();
    publisher.set_chains(config.chains).expect("what was read has each chain once");
    publisher.set_state(RelayerState { chains: ids, workers: Vec::new() });
    Ok(publisher.reader().snapshot())
}
