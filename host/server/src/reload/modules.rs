//! The deployment of modules from the settings: at the start, and again at each reload.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{CodeCache, Compiler, Digest};
use relayer_rest_sources::{Watch, watch};
use relayer_rest_state::StateReader;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::Reloaded;
use super::error::ReloadError;
use super::mount_spec::MountSpec;
use super::watched_module::WatchedModule;
use crate::commands::Commands;
use crate::config::{Layers, Settings};
use crate::registry::{BackgroundWorker, Mount, Mounts, Registry};

/// The time after which the log names a module that is still being compiled, and the interval
/// after that.
const LOG_DELAY: Duration = Duration::from_secs(1);
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The context in which modules are loaded.
pub struct ModuleContext {
    /// The layers of the settings, for a reload.
    pub layers: Layers,
    /// The dialect of the relayer, in which a bundled module serves the API if the settings
    /// do not name another one.
    pub relayer_dialect: Option<Dialect>,
    /// The folder for compiled code.
    pub code_cache: Option<CodeCache>,
    /// The command that compiles modules of files.
    pub compiler: Option<Compiler>,
}

/// The deployed modules and their settings.
pub struct Modules {
    /// The mounts.
    pub registry: Arc<Registry>,
    context: ModuleContext,
    /// The settings in effect.
    settings: ArcSwap<Settings>,
    /// The commands that clients may give, whose settings are reloaded.
    commands: Option<Arc<Commands>>,
    loaded: tokio::sync::Mutex<Vec<Loaded>>,
    /// The dialect of the relayer; changed only while `loaded` is locked.
    relayer_dialect: Mutex<Option<Dialect>>,
    /// Loads modules for a reload, on one thread, which limits memory.
    loader: BackgroundWorker,
}

/// A mount, and its specification.
#[derive(Clone)]
struct Loaded {
    spec: MountSpec,
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
    pub async fn load(context: ModuleContext, settings: Settings) -> Result<Self, ReloadError> {
        let mut loaded = Vec::new();
        for spec in MountSpec::all(&settings.config, context.relayer_dialect) {
            let bytes = spec.read()?;
            let engine = spec.engine(context.code_cache.clone(), context.compiler.clone())?;
            let module = logged_if_slow(&spec, spec.load(&engine, &bytes)).await?;
            let mount = Arc::new(spec.mount(module));
            let file = spec.name_of_file();
            let digest = Digest::new(&bytes);
            info!(mount = %mount.path(), name = spec.name, file, %digest, "module loaded");
            loaded.push(Loaded { spec, digest, mount, watched: None });
        }
        Ok(Self {
            registry: Arc::new(Registry::with_mounts(mounts(&loaded)?)),
            settings: ArcSwap::from_pointee(settings),
            commands: None,
            loaded: loaded.into(),
            relayer_dialect: Mutex::new(context.relayer_dialect),
            context,
            loader: BackgroundWorker::default(),
        })
    }

    /// Sets the commands whose settings a reload applies.
    #[must_use]
    pub fn with_commands(self, commands: Arc<Commands>) -> Self {
        Self { commands: Some(commands), ..self }
    }

    /// Returns the settings in effect.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    fn is_watching(&self) -> bool {
        self.settings.load().config.server.watch
    }

    /// Starts to swap each module when its file changes, if `server.watch` is set.
    pub async fn watch(&self, state: &StateReader) -> Result<(), ReloadError> {
        let mut loaded = self.loaded.lock().await;
        if self.is_watching() && loaded.iter().all(|loaded| loaded.spec.file.is_none()) {
            warn!(hint = "set a file with --module", "nothing to watch");
        }
        for loaded in loaded.iter_mut() {
            loaded.watched = self.watched(&loaded.spec, &loaded.mount, state)?;
        }
        Ok(())
    }

    /// Reads the settings again and applies them to all mounts, or to none if there is an
    /// error. An unchanged mount is kept, with the module that was swapped in.
    pub async fn reload(&self, state: &StateReader) -> Result<Reloaded, ReloadError> {
        // A read that hangs here blocks nothing else.
        let layers = self.context.layers.clone();
        let settings =
            spawn_blocking(move || layers.reread()).await.map_err(ReloadError::Reading)??;
        let mut loaded = self.loaded.lock().await;
        let mut report = Reloaded::default();
        let (settings, changed) = self.settings.load().reloaded(settings);
        let config = &settings.config;
        if self.context.layers.file().is_none() {
            report.notes.push(
                "there are no settings to read: the server was started without --config".to_owned(),
            );
        }
        for section in changed {
            report.notes.push(format!("[{section}] has changed; restart to apply it"));
        }
        let mut next = Vec::new();
        // The deployment locks of the mounts that are replaced or removed, and their
        // active modules: no swap starts there until the reload is done.
        let mut locks = Vec::new();
        let mut removed = Vec::new();
        let mut remove = |mount: &Arc<Mount>| {
            let lock = mount
                .try_lock_deployment()
                .ok_or_else(|| ReloadError::Busy(mount.path().clone()))?;
            locks.push(lock);
            removed.push((Arc::clone(mount), Arc::clone(&mount.active())));
            Ok::<_, ReloadError>(())
        };
        let relayer_dialect = *self.relayer_dialect.lock().unwrap_or_else(PoisonError::into_inner);
        for spec in MountSpec::all(config, relayer_dialect) {
            let bytes = block_in_place(|| spec.read_when_stable())?;
            let digest = Digest::new(&bytes);
            let before = loaded.iter().find(|before| before.spec.path == spec.path);
            let path = spec.path.to_string();
            if let Some(before) = before.filter(|before| before.is(&spec, digest)) {
                report.failures.extend(before.rejection());
                report.kept.push(path);
                // The file's present digest; the mount's module may have been swapped in.
                next.push(Loaded { digest, ..before.clone() });
                continue;
            }
            if let Some(before) = before {
                remove(&before.mount)?;
                if let Some(reason) = before.mount.reason_against(digest) {
                    return Err(spec.quarantined(&reason));
                }
                report.replaced.push(path);
            } else {
                report.added.push(path);
            }
            // A rollback needs a previous module with the same limits and grants.
            let same = before.filter(|before| before.spec == spec);
            let mount = self.mount(&spec, bytes, same.map(|before| &*before.mount)).await?;
            let mount = checked(mount, &spec, state).await?;
            let watched = self.watched(&spec, &mount, state)?;
            next.push(Loaded { spec, digest, mount, watched });
        }
        for before in loaded.iter() {
            if next.iter().all(|next| next.spec.path != before.spec.path) {
                remove(&before.mount)?;
                report.removed.push(before.spec.path.to_string());
            }
        }
        let mounts = mounts(&next)?;
        if let Some((mount, _)) =
            removed.iter().find(|(mount, active)| !Arc::ptr_eq(&mount.active(), active))
        {
            return Err(ReloadError::Changed(mount.path().clone()));
        }
        if let Some(commands) = &self.commands {
            commands.reload(&config.commands)?;
        }
        self.registry.exchange(mounts);
        // A watcher of a file may wait for the lock.
        drop(locks);
        *loaded = next;
        self.settings.store(Arc::new(settings));
        info!(?report, "settings reloaded");
        Ok(report)
    }

    /// Serves the API in the dialect of the relayer with the bundled module, unless the
    /// settings or the command line name a dialect or a module.
    pub(super) async fn set_relayer_dialect(
        &self,
        dialect: Dialect,
        state: &StateReader,
    ) -> Result<(), ReloadError> {
        let mut loaded = self.loaded.lock().await;
        let is_followed = loaded[0].spec.follows_relayer;
        if is_followed && loaded[0].spec.dialect != dialect {
            let before = Arc::clone(&loaded[0].mount);
            let busy = || ReloadError::Busy(before.path().clone());
            let _lock = before.try_lock_deployment().ok_or_else(busy)?;
            let spec = loaded[0].spec.in_dialect(dialect);
            let bytes = spec.read()?;
            let digest = Digest::new(&bytes);
            let mount = checked(self.mount(&spec, bytes, None).await?, &spec, state).await?;
            let mut next = loaded.clone();
            next[0] = Loaded { spec, digest, mount, watched: None };
            self.registry.exchange(mounts(&next)?);
            *loaded = next;
            info!(%dialect, "API serves the dialect of the relayer");
        }
        *self.relayer_dialect.lock().unwrap_or_else(PoisonError::into_inner) = Some(dialect);
        Ok(())
    }

    /// Creates a mount whose module has not been checked yet, as the successor of a mount
    /// with the same specification, if there is one.
    async fn mount(
        &self,
        spec: &MountSpec,
        bytes: Cow<'static, [u8]>,
        same: Option<&Mount>,
    ) -> Result<Mount, ReloadError> {
        let engine = if let Some(mount) = same {
            mount.engine().clone()
        } else {
            spec.engine(self.context.code_cache.clone(), self.context.compiler.clone())?
        };
        // The worker leaves the processors to the requests.
        let own_engine = engine.clone();
        let own_spec = spec.clone();
        let loading = async move { own_spec.load(&own_engine, &bytes).await };
        let module = self.loader.run(loading).await.map_err(ReloadError::Start)??;
        let mount = spec.mount(module);
        Ok(match same {
            Some(before) => mount.succeeding(before),
            None => mount,
        })
    }

    /// Watches the module's file, if it has one and `--watch` is given.
    fn watched(
        &self,
        spec: &MountSpec,
        mount: &Arc<Mount>,
        state: &StateReader,
    ) -> Result<Option<Arc<Watched>>, ReloadError> {
        let Some(file) = spec.file.as_ref().filter(|_| self.is_watching()) else {
            return Ok(None);
        };
        info!(mount = %mount.path(), file = %file.display(), "watching module file");
        let module = Arc::new(WatchedModule::new(mount, file, spec.sha256, state));
        let watched = Arc::clone(&module);
        let watch = watch(file, move || watched.reload()).map_err(ReloadError::Watch)?;
        Ok(Some(Arc::new(Watched { module, _watch: watch })))
    }
}

impl Loaded {
    /// Returns the reason why the watched file is not the module in service, if it was
    /// rejected.
    fn rejection(&self) -> Option<String> {
        let watched = self.watched.as_ref()?;
        let reason = watched.module.rejection()?;
        let file = self.spec.name_of_file();
        Some(format!("{}: {file}: {reason}; the previous module stays active", self.spec.path))
    }

    /// Returns whether a specification and a file's digest match this mount: the file as
    /// it was read, the module in service, or the last content that its watcher handled.
    fn is(&self, spec: &MountSpec, digest: Digest) -> bool {
        let last_read = self.watched.as_ref().map(|watched| watched.module.last_read());
        let mut digests = [self.digest, self.mount.module().digest()].into_iter().chain(last_read);
        self.spec == *spec && digests.any(|own| own == digest)
    }
}

/// Loads the module of a mount. The log names one that takes long, since clients wait for the
/// server meanwhile.
async fn logged_if_slow<T>(spec: &MountSpec, loading: impl Future<Output = T>) -> T {
    let mut loading = pin!(loading);
    let start = Instant::now();
    let mut wait = LOG_DELAY;
    loop {
        if let Ok(loaded) = timeout(wait, &mut loading).await {
            return loaded;
        }
        wait = LOG_INTERVAL;
        let file = spec.name_of_file();
        info!(mount = %spec.path, file, elapsed = ?start.elapsed(), "still compiling a module");
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
async fn checked(
    mount: Mount,
    spec: &MountSpec,
    state: &StateReader,
) -> Result<Arc<Mount>, ReloadError> {
    let mount = Arc::new(mount);
    let result = timeout(spec.swap.time, mount.health_check(state)).await;
    result.map_err(|_| spec.too_slow())?.map_err(|reason| spec.rejected(reason))?;
    Ok(mount)
}
