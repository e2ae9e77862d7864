//! The modules that serve, from the settings: at the start, and again when
//! those have changed.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::block_in_place;
use tokio::time::timeout;
use tracing::{info, warn};

use super::code_cache::CodeCacheArgs;
use super::serve::ServeError;
use super::wanted::Wanted;
use super::watched_module::WatchedModule;
use crate::HttpLimits;
use crate::config::Config;
use crate::conformance::Dialect;
use crate::control::Reloaded;
use crate::module::{Digest, Engine, LoadError, Module};
use crate::registry::{Mount, Mounts, Registry};
use crate::state::{StateReader, Watch, watch};

/// What the command line says of modules.
pub(super) struct Origin {
    pub(super) module: Option<PathBuf>,
    pub(super) dialect: Option<Dialect>,
    /// The settings.
    pub(super) config: Option<PathBuf>,
    pub(super) code_cache: CodeCacheArgs,
    /// Modules are swapped when their files change.
    pub(super) watch: bool,
}

/// What serves, and what it is from.
pub(super) struct Modules {
    pub(super) registry: Arc<Registry>,
    origin: Origin,
    http: HttpLimits,
    loaded: tokio::sync::Mutex<Vec<Loaded>>,
    watches: Mutex<Vec<Watch>>,
}

/// A mount, and what it is from.
struct Loaded {
    wanted: Wanted,
    /// Of the file when it was read.
    digest: Digest,
    mount: Arc<Mount>,
}

impl Modules {
    /// Loads all that is to be mounted.
    pub(super) fn load(origin: Origin, config: &Config) -> Result<Self, ServeError> {
        let mut loaded = Vec::new();
        for wanted in Wanted::all(config, origin.module.as_deref(), origin.dialect) {
            let bytes = wanted.read()?;
            let engine = origin.code_cache.engine(&wanted.limits)?;
            let module = compiled(&engine.with_grants(wanted.grants.clone()), &wanted, &bytes);
            let mount = Arc::new(wanted.mount(module.map_err(|error| wanted.fault(error))?));
            let file = wanted.name_of_file();
            let digest = Digest::of(&bytes);
            info!(mount = %mount.path(), name = wanted.name, file, %digest, "loaded the module");
            loaded.push(Loaded { wanted, digest, mount });
        }
        Ok(Self {
            registry: Arc::new(Registry::of(mounts(&loaded)?)),
            origin,
            http: config.http.clone(),
            loaded: loaded.into(),
            watches: Mutex::default(),
        })
    }

    /// Reads the settings again, and serves what they say now: all of it, or
    /// nothing where something is wrong. What is as it was stays as it is, with
    /// what was swapped in.
    pub(super) async fn reload(&self, state: &StateReader) -> Result<Reloaded, ServeError> {
        let mut loaded = self.loaded.lock().await;
        let config = self.origin.config.as_deref().map(Config::read).transpose()?;
        let config = config.unwrap_or_default();
        let mut report = Reloaded::default();
        if config.http != self.http {
            report.notes.push("[http] has changed: it counts from the next start on".to_owned());
        }
        let wanted = Wanted::all(&config, self.origin.module.as_deref(), self.origin.dialect);
        // Until all is done, nothing else changes what is replaced.
        let mut turns = Vec::new();
        let mut take_turn = |mount: &Mount| match mount.take_turn() {
            Some(turn) => {
                turns.push(turn);
                Ok(())
            }
            None => Err(ServeError::Busy(mount.path().clone())),
        };
        let mut next = Vec::new();
        for wanted in wanted {
            let bytes = block_in_place(|| wanted.read())?;
            let digest = Digest::of(&bytes);
            let before = loaded.iter().find(|before| before.wanted.path == wanted.path);
            let path = wanted.path.to_string();
            let mount = match before {
                Some(before) if before.is(&wanted, digest) => {
                    report.kept.push(path);
                    Arc::clone(&before.mount)
                }
                Some(before) => {
                    take_turn(&before.mount)?;
                    let mount = self.mount(&wanted, &bytes).await?.in_place_of(&before.mount);
                    report.replaced.push(path);
                    looked_at(mount, &wanted, state).await?
                }
                None => {
                    let mount = self.mount(&wanted, &bytes).await?;
                    report.added.push(path);
                    looked_at(mount, &wanted, state).await?
                }
            };
            next.push(Loaded { wanted, digest, mount });
        }
        for before in loaded.iter() {
            if next.iter().all(|next| next.wanted.path != before.wanted.path) {
                take_turn(&before.mount)?;
                report.removed.push(before.wanted.path.to_string());
            }
        }
        self.registry.exchange(mounts(&next)?);
        *loaded = next;
        // Whoever watches a file may wait for its turn.
        drop(turns);
        drop(loaded);
        if self.origin.watch {
            self.watch(state).await?;
        }
        info!(?report, "read the settings again");
        Ok(report)
    }

    /// A mount of a module that nobody has looked at.
    async fn mount(&self, wanted: &Wanted, bytes: &[u8]) -> Result<Mount, ServeError> {
        let engine = self.origin.code_cache.engine(&wanted.limits)?;
        let engine = engine.with_grants(wanted.grants.clone());
        let name = wanted.name_of_file();
        let module = Module::from_untrusted_bytes(&engine, &name, bytes, wanted.swap.memory);
        let module = timeout(wanted.swap.time, module).await.map_err(|_| wanted.too_slow())?;
        Ok(wanted.mount(module.map_err(|error| wanted.fault(error))?))
    }

    /// Swaps each module when its file changes, as long as this lives.
    pub(super) async fn watch(&self, state: &StateReader) -> Result<(), ServeError> {
        let loaded = self.loaded.lock().await;
        let files = loaded
            .iter()
            .filter_map(|loaded| Some((Arc::clone(&loaded.mount), loaded.wanted.file.clone()?)));
        let files: Vec<(Arc<Mount>, PathBuf)> = files.collect();
        drop(loaded);
        if files.is_empty() {
            warn!(
                "--watch: the module comes with relayer-rest and has no file; give one with --module"
            );
        }
        let watch_one = |(mount, file): &(Arc<Mount>, PathBuf)| {
            info!(mount = %mount.path(), file = %file.display(), "watching the module's file");
            let module = WatchedModule::new(mount, file, state);
            watch(file, move || module.look())
        };
        let watches =
            files.iter().map(watch_one).collect::<Result<_, _>>().map_err(ServeError::Watch)?;
        let mut present = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mem::replace(&mut *present, watches);
        drop(present);
        drop(before);
        Ok(())
    }
}

impl Loaded {
    /// Whether what is wanted is what is there.
    fn is(&self, wanted: &Wanted, digest: Digest) -> bool {
        let known = [self.digest, self.mount.module().digest()];
        self.wanted == *wanted && known.contains(&digest)
    }
}

fn mounts(loaded: &[Loaded]) -> Result<Mounts, ServeError> {
    let (api, extensions) = loaded.split_first().expect("the API is always wanted");
    let mut mounts = Mounts::new(Arc::clone(&api.mount));
    for extension in extensions {
        mounts = mounts
            .with(Arc::clone(&extension.mount))
            .map_err(|error| ServeError::Mount { error })?;
    }
    Ok(mounts)
}

/// A mount whose module answers what it should.
async fn looked_at(
    mount: Mount,
    wanted: &Wanted,
    state: &StateReader,
) -> Result<Arc<Mount>, ServeError> {
    let mount = Arc::new(mount);
    let found = timeout(wanted.swap.time, mount.examine(state)).await;
    found.map_err(|_| wanted.too_slow())?.map_err(|reason| wanted.unfit(reason))?;
    Ok(mount)
}

/// A module; where it cannot be loaded because what is kept of it is damaged, it
/// is compiled again.
fn compiled(engine: &Engine, wanted: &Wanted, bytes: &[u8]) -> Result<Module, LoadError> {
    let name = wanted.name_of_file();
    let error = match Module::from_bytes(engine, &name, bytes) {
        Ok(module) => return Ok(module),
        Err(error) => error,
    };
    let Some(folder) = engine.code_cache().map(Path::to_owned) else { return Err(error) };
    let Ok(fresh) = Engine::new(engine.limits()) else { return Err(error) };
    let fresh = fresh.with_grants(engine.grants().clone());
    let module = Module::from_bytes(&fresh, &name, bytes).map_err(|_| error)?;
    let folder = folder.display();
    warn!("code cache {folder}: what is kept there is damaged, and not used; remove the folder");
    Ok(module)
}
