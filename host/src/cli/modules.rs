//! The modules that serve, from the settings; and watching their files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tracing::{info, warn};

use super::code_cache::CodeCacheArgs;
use super::reload::settled;
use super::serve::ServeError;
use crate::config::Config;
use crate::conformance::Dialect;
use crate::module::{Digest, Module};
use crate::registry::{Candidate, Mount, Outcome, Refusal, Registry, Source, SwapReport};
use crate::state::{StateReader, Watch, watch};

/// What serves, and the files that it is from.
pub(super) struct Modules {
    pub(super) registry: Arc<Registry>,
    files: Vec<(Arc<Mount>, PathBuf)>,
}

/// Loads all that is to be mounted.
pub(super) fn load(
    api: Option<&Path>,
    dialect: Option<Dialect>,
    config: &Config,
    code_cache: &CodeCacheArgs,
    config_file: Option<&Path>,
) -> Result<Modules, ServeError> {
    let dialect = dialect.unwrap_or(config.module.dialect);
    let engine = code_cache.engine(&config.module.limits)?;
    let file = api.or(config.module.file.as_deref());
    let module = match file {
        Some(file) => Module::from_file(&engine, file)?,
        None => Module::from_bytes(&engine, "embedded", dialect.component())?,
    };
    let mount = Mount::api(module)
        .with_dialect(dialect)
        .with_budget(config.module.budget.clone())
        .with_swap_limits(config.swap.clone());
    let mut registry = Registry::new(mount);
    let mut files = vec![file.map(Path::to_owned)];
    for extension in &config.extension {
        let name = extension.name.as_str();
        let engine = code_cache.engine(&extension.limits)?;
        let module = Module::from_file(&engine, &extension.module)?.named(name);
        let path = extension
            .path()
            .map_err(|error| ServeError::Extension { name: name.to_owned(), error })?;
        let mount = Mount::extension(path, module)
            .with_budget(extension.budget.clone())
            .with_swap_limits(config.swap.clone());
        registry = registry.with(mount).map_err(|error| {
            let file = config_file.unwrap_or(Path::new("")).to_owned();
            ServeError::Mount { file, error }
        })?;
        files.push(Some(extension.module.clone()));
    }
    for (mount, file) in registry.mounts().zip(&files) {
        let file = file.as_ref().map_or("embedded".into(), |file| file.display().to_string());
        let module = mount.module();
        let (name, digest) = (module.name(), module.digest());
        info!(mount = %mount.path(), name, file, %digest, "loaded the module");
    }
    let files = registry.mounts().cloned().zip(files);
    let files = files.filter_map(|(mount, file)| Some((mount, file?))).collect();
    Ok(Modules { registry: Arc::new(registry), files })
}

/// The time between two tries to have a turn.
const TURN: Duration = Duration::from_millis(500);

fn is_to_wait(report: &SwapReport) -> bool {
    let Outcome::Refused { reason, .. } = &report.outcome else { return false };
    matches!(reason, Refusal::Busy | Refusal::Changed)
}

impl Modules {
    /// Swaps each module when its file changes, for as long as what is
    /// returned lives.
    pub(super) fn watch(&self, state: &StateReader) -> Result<Vec<Watch>, ServeError> {
        if self.files.is_empty() {
            warn!(
                "--watch: the module comes with relayer-rest and has no file; give one with --module"
            );
        }
        let watch_one = |(mount, file): &(Arc<Mount>, PathBuf)| {
            info!(mount = %mount.path(), file = %file.display(), "watching the module's file");
            let (mount, state, runtime) = (Arc::clone(mount), state.clone(), Handle::current());
            let name = file.display().to_string();
            let path = file.clone();
            // It is not tried again until it is another one.
            let last = Mutex::new(mount.module().digest());
            watch(file, move || {
                let bytes = match settled(&path) {
                    Ok(bytes) => Bytes::from(bytes),
                    Err(error) => return warn!("module {name}: cannot be read: {error}"),
                };
                let digest = Digest::of(&bytes);
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if std::mem::replace(&mut *last, digest) == digest {
                    return;
                }
                let source = Source::Bytes { name: name.clone(), bytes };
                let candidate = Candidate::new(source);
                // Another swap goes first; what it leaves is compared with.
                while is_to_wait(&runtime.block_on(mount.swap(candidate.clone(), &state))) {
                    thread::sleep(TURN);
                }
            })
        };
        self.files.iter().map(watch_one).collect::<Result<_, _>>().map_err(ServeError::Watch)
    }
}
