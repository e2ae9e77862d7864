//! The modules that serve, from the settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{info, warn};

use super::code_cache::CodeCacheArgs;
use super::serve::ServeError;
use super::watched_module::WatchedModule;
use crate::config::Config;
use crate::conformance::Dialect;
use crate::module::{Engine, LoadError, Module};
use crate::registry::{Mount, Registry};
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
    let module = loaded(&engine, |engine| match file {
        Some(file) => Module::from_file(engine, file),
        None => Module::from_bytes(engine, "embedded", dialect.component()),
    })?;
    let mount = Mount::api(module)
        .with_dialect(dialect)
        .with_budget(config.module.budget.clone())
        .with_swap_limits(config.swap.clone());
    let mut registry = Registry::new(mount);
    let mut files = vec![file.map(Path::to_owned)];
    for extension in &config.extension {
        let name = extension.name.as_str();
        let engine = code_cache.engine(&extension.limits)?;
        let module = loaded(&engine, |engine| Module::from_file(engine, &extension.module))?;
        let module = module.named(name);
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

/// A module; where it cannot be loaded because what is kept of it is damaged, it
/// is compiled again.
fn loaded(
    engine: &Engine,
    load: impl Fn(&Engine) -> Result<Module, LoadError>,
) -> Result<Module, ServeError> {
    let error = match load(engine) {
        Ok(module) => return Ok(module),
        Err(error) => error,
    };
    let Some(folder) = engine.code_cache() else { return Err(error.into()) };
    let module = load(&Engine::new(engine.limits())?).map_err(|_| error)?;
    let folder = folder.display();
    warn!("code cache {folder}: what is kept there is damaged, and not used; remove the folder");
    Ok(module)
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
            let module = WatchedModule::new(mount, file, state);
            watch(file, move || module.look())
        };
        self.files.iter().map(watch_one).collect::<Result<_, _>>().map_err(ServeError::Watch)
    }
}
