//! Capsules as `replay`, `check` and `swap` use them: their files, their modules and their runs.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use relayer_rest_common::files;
use relayer_rest_modules::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, MODULE_1_13};
use relayer_rest_sandbox::{
    Capsule, DebugOutput, Digest, Engine, EngineOptions, LoadError, MAX_CAPSULE_SIZE,
    MAX_COMPONENT_SIZE, Module, Outcome, Replay,
};
use relayer_rest_server::config::Config;
use relayer_rest_server::registry::ModuleLocation;
use serde::Serialize;

use super::{Failure, block_on, code_cache, compile, mounts, project};

/// The end of the name of each capsule.
const SUFFIX: &str = ".capsule.json";

/// The maximum number of capsules that are replayed at once.
const MAX_CAPSULES: usize = 100_000;

/// A stored failure, which a candidate has repeated.
#[derive(Debug, Serialize)]
pub(super) struct StoredFailure {
    /// The file of the capsule.
    file: PathBuf,
    #[serde(flatten)]
    repeated: Repeated,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Repeated {
    Run {
        /// The method and the target of the request.
        request: String,
        recorded: Outcome,
        replayed: Outcome,
        /// The values that the recorded module did not read.
        missing: Vec<String>,
    },
    /// The capsule cannot be read.
    Unreadable { error: String },
}

/// Reads a capsule.
pub(super) fn read(file: &Path) -> Result<Capsule, Failure> {
    let json = files::read(file, MAX_CAPSULE_SIZE).map_err(|error| {
        format!("{}: cannot be read: {error}; check the path and its permissions", file.display())
    })?;
    Ok(Capsule::parse(&json).map_err(|error| format!("{}: {error}", file.display()))?)
}

/// Returns the name and the bytes of a component: the given one, a bundled one, or the one that
/// the server has put beside the capsule.
pub(super) fn component(
    capsule: &Capsule,
    file: &Path,
    given: Option<&ModuleLocation>,
) -> Result<(String, Vec<u8>), Failure> {
    if let Some(given) = given {
        return read_component(given);
    }
    let digest = capsule.digest();
    let bundled = [("bundled 0.7", DEFAULT_MODULE), ("bundled 1.13", MODULE_1_13)].into_iter();
    let extensions = BUNDLED_EXTENSIONS.iter().map(|bundled| (bundled.name, bundled.component));
    if let Some((name, bytes)) =
        bundled.chain(extensions).find(|(_, bytes)| Digest::new(bytes) == digest)
    {
        return Ok((name.to_owned(), bytes.to_vec()));
    }
    let beside = file.with_file_name(format!("{digest}.wasm"));
    if beside.exists() {
        let (name, bytes) = read_component(&beside.clone().into())?;
        if Digest::new(&bytes) != digest {
            return Err(format!("module {name}: not the one of the capsule; remove it").into());
        }
        return Ok((name, bytes));
    }
    Err(format!(
        "module {digest}: not bundled, and not in {}; name its file with --module",
        beside.display()
    )
    .into())
}

/// Reads the component of a file, or of the folder of its sources, and returns it with its name in
/// messages.
pub(super) fn read_component(module: &ModuleLocation) -> Result<(String, Vec<u8>), Failure> {
    let module = project::locate(module)?;
    let file = module.file().ok_or_else(|| {
        format!("module {module}: not a file; capsules need one, which `relayer-rest pull` writes")
    })?;
    let bytes = files::read(file, MAX_COMPONENT_SIZE)
        .map_err(|source| LoadError::Unreadable { file: file.to_owned(), source })?;
    Ok((file.display().to_string(), bytes))
}

/// Loads a module for the replay of a capsule.
pub(super) fn load(capsule: &Capsule, name: &str, component: &[u8]) -> Result<Module, Failure> {
    let config = Config::default();
    let options = EngineOptions {
        code_cache: code_cache::open(&config.code_cache)?,
        compiler: Some(compile::compiler()),
        ..capsule.engine_options()
    };
    let engine = Engine::with(options)?;
    let module = Module::from_untrusted_bytes(&engine, name, component, config.swap.memory);
    Ok(block_on(module)??.named(mounts::module_name(capsule.mount())))
}

/// Replays all capsules of a folder that belong to a mount, with a candidate. Without a mount, all
/// of them.
pub(super) fn replay_all(
    folder: &Path,
    (name, component): (&str, &[u8]),
    mount: Option<&str>,
) -> Result<Vec<StoredFailure>, Failure> {
    let mut replayed = Vec::new();
    let mut loaded: Option<(Capsule, Module)> = None;
    for file in files_in(folder)? {
        let capsule = match read(&file) {
            Ok(capsule) => capsule,
            // A server removes the oldest ones.
            Err(_) if !file.exists() => continue,
            Err(error) => {
                let repeated = Repeated::Unreadable { error: error.to_string() };
                replayed.push(StoredFailure { file, repeated });
                continue;
            }
        };
        if mount.is_some_and(|mount| mount != capsule.mount()) {
            continue;
        }
        // Most capsules have the same settings, and so need the same engine.
        let known = loaded.take().filter(|(known, _)| known.has_settings_of(&capsule));
        let module = match known {
            Some((_, module)) => module,
            None => load(&capsule, name, component)?,
        };
        let replay = block_on(capsule.replay(&module, &DebugOutput::default()))??;
        let replay = replay.map_err(|error| format!("module {name}: {error}"))?;
        let Replay { outcome, missing, .. } = replay;
        let repeated = Repeated::Run {
            request: capsule.summary(),
            recorded: capsule.outcome().clone(),
            replayed: outcome,
            missing,
        };
        replayed.push(StoredFailure { file, repeated });
        loaded = Some((capsule, module));
    }
    Ok(replayed)
}

/// Returns the capsules in a folder, the oldest first.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let error = |error| {
        format!("folder {}: cannot be read: {error}; check the path (--capsules)", folder.display())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            found.push(entry.path());
        }
    }
    if found.len() > MAX_CAPSULES {
        let count = found.len();
        return Err(format!(
            "folder {}: {count} capsules; the maximum is {MAX_CAPSULES}",
            folder.display()
        )
        .into());
    }
    found.sort();
    Ok(found)
}

impl StoredFailure {
    /// Returns whether the candidate fails, too, or cannot be tried on it.
    pub(super) fn remains(&self) -> bool {
        match &self.repeated {
            Repeated::Run { replayed, .. } => replayed.is_failure() || self.is_untried(),
            Repeated::Unreadable { .. } => true,
        }
    }

    /// Returns whether the candidate cannot be tried on it: the run may not have reached the failure
    /// without a value that the recorded module did not read.
    fn is_untried(&self) -> bool {
        matches!(&self.repeated, Repeated::Run { replayed, missing, .. }
            if !replayed.is_failure() && !missing.is_empty())
    }
}

/// Describes the replays, the remaining failures one by one.
pub(super) fn text(replayed: &[StoredFailure]) -> Vec<String> {
    let remaining: Vec<_> = replayed.iter().filter(|stored| stored.remains()).collect();
    let untried = remaining.iter().filter(|stored| stored.is_untried()).count();
    let count = remaining.len() - untried;
    let mut first = format!("{count} of {} stored failures remain", replayed.len());
    if untried > 0 {
        // Writing to a string cannot fail.
        write!(first, "; {untried} cannot be tried: the module reads a value that is missing").ok();
    }
    let mut lines = vec![first];
    for StoredFailure { file, repeated } in remaining {
        match repeated {
            Repeated::Run { request, recorded, replayed, missing } => {
                lines.push(format!("  {request} ({})", file.display()));
                if recorded == replayed {
                    lines.push(format!("    {replayed}"));
                } else {
                    lines.push(format!("    {recorded} -> {replayed}"));
                }
                lines.extend(missing.iter().map(|read| format!("    missing: {read}")));
            }
            Repeated::Unreadable { error } => lines.push(format!("  {error}")),
        }
    }
    lines
}
