//! The deployment of modules from the settings: at the start, and again at each reload.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use relayer_rest_common::{files, stable_file};
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{CodeCache, Compiler, Digest};
use relayer_rest_sources::{Watch, watch};
use relayer_rest_state::StateReader;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::timeout;
use tracing::{info, warn};

use super::Reloaded;
use super::error::ReloadError;
use super::mount_spec::MountSpec;
use super::watched_module::WatchedModule;
use crate::HttpLimits;
use crate::config::Config;
use crate::registry::{BackgroundWorker, Mount, Mounts, Registry};

/// The settings of modules that do not come from the settings file.
pub struct ModuleOverrides {
    /// The module of the API.
    pub module: Option<PathBuf>,
    /// The dialect of the API.
    pub dialect: Option<Dialect>,
    /// The file of the settings.
    pub config: Option<PathBuf>,
    /// The folder for compiled code.
    pub code_cache: Option<CodeCache>,
    /// The command that compiles modules of files.
    pub compiler: Option<Compiler>,
    /// Whether modules are swapped when their files change.
    pub watch: bool,
}

/// The deployed modules and their settings.
pub struct Modules {
    /// The mounts.
    pub registry: Arc<Registry>,
    origin: ModuleOverrides,
    http: HttpLimits,
    loaded: tokio::sync::Mutex<Vec<Loaded>>,
    /// Loads modules for a reload, on one thread, which limits memory.
    examiner: BackgroundWorker,
}

/// A mount, and its specification.
#[derive(Clone)]
struct Loaded {
    wanted: MountSpec,
    /// The digest of the file when it was read.
    digest: Digest,
    mount: Arc<Mount>,
    watched: Option<Arc<Watched>>,
}

/// Swaps a module when its file changes, until this is dropped.
struct Watched {
    module: Arc<WatchedModule>,
    _watch: Watch,
}

impl Modules {
    /// Loads the modules of all mounts.
    pub async fn load(origin: ModuleOverrides, config: &Config) -> Result<Self, ReloadError> {
        let mut loaded = Vec::new();
        for wanted in MountSpec::all(config, origin.module.as_deref(), origin.dialect) {
            let bytes = wanted.read()?;
            let engine = wanted.engine(origin.code_cache.clone(), origin.compiler.clone())?;
            let module = wanted.load(&engine, &bytes).await?;
            let mount = Arc::new(wanted.mount(module));
            let file = wanted.name_of_file();
            let digest = Digest::new(&bytes);
            info!(mount = %mount.path(), name = wanted.name, file, %digest, "module loaded");
            loaded.push(Loaded { wanted, digest, mount, watched: None });
        }
        Ok(Self {
            registry: Arc::new(Registry::with_mounts(mounts(&loaded)?)),
            origin,
            http: config.http.clone(),
            loaded: loaded.into(),
            examiner: BackgroundWorker::default(),
        })
    }

    /// Starts to swap each module when its file changes, if `--watch` is given.
    pub async fn watch(&self, state: &StateReader) -> Result<(), ReloadError> {
        let mut loaded = self.loaded.lock().await;
        if self.origin.watch && loaded.iter().all(|loaded| loaded.wanted.file.is_none()) {
            warn!("--watch: the bundled module has no file to watch; set one with --module");
        }
        for loaded in loaded.iter_mut() {
            loaded.watched = self.watched(&loaded.wanted, &loaded.mount, state)?;
        }
        Ok(())
    }

    /// Reads the settings again and applies them to all mounts, or to none if there is an
    /// error. An unchanged mount is kept, with the module that was swapped in.
    pub async fn reload(&self, state: &StateReader) -> Result<Reloaded, ReloadError> {
        // A read that hangs here blocks nothing else.
        let config = match self.origin.config.clone() {
            None => Config::default(),
            Some(file) => spawn_blocking(move || {
                Config::from_content(&file, stable_file::read(&file, files::MAX_TEXT))
            })
            .await
            .map_err(ReloadError::Reading)??,
        };
        let mut loaded = self.loaded.lock().await;
        let mut report = Reloaded::default();
        if config.http != self.http {
            report.notes.push("[http] has changed; restart to apply it".to_owned());
        }
        let mut next = Vec::new();
        // The deployment locks of the mounts that are replaced or removed, and their
        // active modules: no swap starts there until the reload is done.
        let mut turns = Vec::new();
        let mut leaving = Vec::new();
        let mut leaves = |mount: &Arc<Mount>| {
            let turn = mount
                .try_lock_deployment()
                .ok_or_else(|| ReloadError::Busy(mount.path().clone()))?;
            turns.push(turn);
            leaving.push((Arc::clone(mount), Arc::clone(&mount.active())));
            Ok::<_, ReloadError>(())
        };
        for wanted in MountSpec::all(&config, self.origin.module.as_deref(), self.origin.dialect) {
            let bytes = block_in_place(|| wanted.read_when_stable())?;
            let digest = Digest::new(&bytes);
            let before = loaded.iter().find(|before| before.wanted.path == wanted.path);
            let path = wanted.path.to_string();
            if let Some(before) = before.filter(|before| before.is(&wanted, digest)) {
                report.kept.push(path);
                // The file's present digest; the mount's module may have been swapped in.
                next.push(Loaded { digest, ..before.clone() });
                continue;
            }
            if let Some(before) = before {
                leaves(&before.mount)?;
                if let Some(reason) = before.mount.reason_against(digest) {
                    return Err(wanted.quarantined(&reason));
                }
                report.replaced.push(path);
            } else {
                report.added.push(path);
            }
            // A rollback needs a previous module with the same limits and grants.
            let same = before.filter(|before| before.wanted == wanted);
            let mount = self.mount(&wanted, bytes, same.map(|before| &*before.mount)).await?;
            let mount = looked_at(mount, &wanted, state).await?;
            let watched = self.watched(&wanted, &mount, state)?;
            next.push(Loaded { wanted, digest, mount, watched });
        }
        for before in loaded.iter() {
            if next.iter().all(|next| next.wanted.path != before.wanted.path) {
                leaves(&before.mount)?;
                report.removed.push(before.wanted.path.to_string());
            }
        }
        let mounts = mounts(&next)?;
        if let Some((mount, _)) =
            leaving.iter().find(|(mount, active)| !Arc::ptr_eq(&mount.active(), active))
        {
            return Err(ReloadError::Changed(mount.path().clone()));
        }
        self.registry.exchange(mounts);
        // A watcher of a file may wait for the lock.
        drop(turns);
        *loaded = next;
        info!(?report, "settings reloaded");
        Ok(report)
    }

    /// Creates a mount whose module has not been checked yet, as the successor of a mount
    /// with the same specification, if there is one.
    async fn mount(
        &self,
        wanted: &MountSpec,
        bytes: Cow<'static, [u8]>,
        same: Option<&Mount>,
    ) -> Result<Mount, ReloadError> {
        let engine = if let Some(mount) = same {
            mount.engine().clone()
        } else {
            wanted.engine(self.origin.code_cache.clone(), self.origin.compiler.clone())?
        };
        // The worker leaves the processors to the requests.
        let aside = engine.clone();
        let of = wanted.clone();
        let loading = async move { of.load(&aside, &bytes).await };
        let module = self.examiner.run(loading).await.map_err(ReloadError::Start)??;
        let mount = wanted.mount(module);
        Ok(match same {
            Some(before) => mount.in_place_of(before),
            None => mount,
        })
    }

    /// Watches the module's file, if it has one and `--watch` is given.
    fn watched(
        &self,
        wanted: &MountSpec,
        mount: &Arc<Mount>,
        state: &StateReader,
    ) -> Result<Option<Arc<Watched>>, ReloadError> {
        let Some(file) = wanted.file.as_ref().filter(|_| self.origin.watch) else {
            return Ok(None);
        };
        info!(mount = %mount.path(), file = %file.display(), "watching module file");
        let module = Arc::new(WatchedModule::new(mount, file, wanted.sha256, state));
        let looking = Arc::clone(&module);
        let watch = watch(file, move || looking.look()).map_err(ReloadError::Watch)?;
        Ok(Some(Arc::new(Watched { module, _watch: watch })))
    }
}

impl Loaded {
    /// Returns whether a specification and a file's digest match this mount: the file as
    /// it was read, the module in service, or the last content that its watcher handled.
    fn is(&self, wanted: &MountSpec, digest: Digest) -> bool {
        let seen = self.watched.as_ref().map(|watched| watched.module.seen());
        let mut known = [self.digest, self.mount.module().digest()].into_iter().chain(seen);
        self.wanted == *wanted && known.any(|known| known == digest)
    }
}

fn mounts(loaded: &[Loaded]) -> Result<Mounts, ReloadError> {
    let (api, extensions) = loaded.split_first().expect("the API is always wanted");
    let mut mounts = Mounts::new(Arc::clone(&api.mount));
    for extension in extensions {
        mounts = mounts
            .with(Arc::clone(&extension.mount))
            .map_err(|error| ReloadError::Mount { error })?;
    }
    Ok(mounts)
}

/// Checks the module of a mount, and returns the mount if it passes.
async fn looked_at(
    mount: Mount,
    wanted: &MountSpec,
    state: &StateReader,
) -> Result<Arc<Mount>, ReloadError> {
    let mount = Arc::new(mount);
    let found = timeout(wanted.swap.time, mount.examine(state)).await;
    found.map_err(|_| wanted.too_slow())?.map_err(|reason| wanted.rejected(reason))?;
    Ok(mount)
}
