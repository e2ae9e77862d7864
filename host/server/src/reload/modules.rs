//! The deployment of modules from the settings: at the start, and again at each reload.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{CodeCache, Compiler, Digest, EngineError};
use relayer_rest_sources::{Watch, watch};
use relayer_rest_state::StateReader;
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::Reloaded;
use super::error::ReloadError;
use super::first_module::{self, Slow};
use super::mount_spec::MountSpec;
use super::watched_module::WatchedModule;
use crate::commands::Commands;
use crate::config::{Layers, Settings};
use crate::registry::{ActiveModule, Candidate, Mount, Mounts, Registry};

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
    /// Whether to wait for all extensions. Otherwise, optional ones that have to
    /// be compiled are loaded in the background.
    pub waits: bool,
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
}

/// A mount, and its specification.
#[derive(Clone)]
struct Loaded {
    spec: MountSpec,
    /// The digest of the file when it was read; `None` if it could not be read.
    digest: Option<Digest>,
    mount: Arc<Mount>,
    watched: Option<Arc<Watched>>,
}

/// Swaps a module when its file changes, until this is dropped.
struct Watched {
    module: Arc<WatchedModule>,
    _watch: Watch,
}

impl Modules {
    /// Loads the modules of all mounts, the API's first. An extension that is rejected is
    /// disabled, unless it is required.
    ///
    /// Must be called within a Tokio runtime.
    pub async fn load(
        context: ModuleContext,
        settings: Settings,
        state: &StateReader,
    ) -> Result<Self, ReloadError> {
        let mut loaded = Vec::new();
        let mut slow = Vec::new();
        for spec in MountSpec::all(&settings.config, context.relayer_dialect) {
            let mount = context.mount(&spec)?;
            let mount = Arc::new(mount);
            let candidate = spec.candidate();
            let waits = context.waits || spec.is_required;
            let (candidate, digest) = if waits || candidate.source.is_here() {
                read(candidate, &spec).await?
            } else {
                (candidate, None)
            };
            if waits || candidate.is_quick(mount.engine()) {
                let result = first_module::load(&spec, &mount, candidate, state).await;
                if spec.is_required {
                    result?;
                }
            } else {
                let mount = Arc::downgrade(&mount);
                slow.push(Slow { spec: spec.clone(), mount, candidate });
            }
            loaded.push(Loaded { spec, digest, mount, watched: None });
        }
        let registry = Arc::new(Registry::with_mounts(mounts(&loaded)?));
        if !slow.is_empty() {
            tokio::spawn(first_module::load_all(slow, state.clone()));
        }
        Ok(Self {
            registry,
            settings: ArcSwap::from_pointee(settings),
            commands: None,
            loaded: loaded.into(),
            relayer_dialect: Mutex::new(context.relayer_dialect),
            context,
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
        if self.is_watching() && loaded.iter().all(|loaded| loaded.spec.file().is_none()) {
            warn!(hint = "set a file with --module", "nothing to watch");
        }
        for loaded in loaded.iter_mut() {
            loaded.watched = self.watched(&loaded.spec, &loaded.mount, loaded.digest, state)?;
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
        let mut removed = Vec::new();
        let relayer_dialect = *self.relayer_dialect.lock().unwrap_or_else(PoisonError::into_inner);
        for spec in MountSpec::all(config, relayer_dialect) {
            let (candidate, digest) = read(spec.changing_candidate(), &spec).await?;
            let before = loaded.iter().find(|before| before.spec.path == spec.path);
            let path = spec.path.to_string();
            let unchanged = before.filter(|before| before.is(&spec, digest));
            // A disabled mount is tried again: the reason may be a temporary one.
            let kept = unchanged.filter(|before| before.mount.reason_disabled().is_none());
            if let Some(before) = kept {
                report.failures.extend(before.rejection());
                report.kept.push(path);
                // The file's present digest; the mount's module may have been swapped in.
                next.push(Loaded { digest, ..before.clone() });
                continue;
            }
            let replaced = before.map(Replaced::lock).transpose()?;
            let mount = match before {
                // A rollback needs a previous module with the same limits and grants.
                Some(before) if before.spec == spec => {
                    spec.mount_with(before.mount.engine().clone()).succeeding(&before.mount)
                }
                Some(before) => self.context.mount(&spec)?.replacing(&before.mount),
                None => self.context.mount(&spec)?,
            };
            let mount = Arc::new(mount);
            match (mount.load_in_background(candidate, state).await, unchanged) {
                (Ok(()), _) => {}
                (Err(rejection), Some(before)) => {
                    report.failures.push(rejection.message);
                    report.kept.push(path);
                    next.push(before.clone());
                    continue;
                }
                (Err(rejection), None) => return Err(rejection.into()),
            }
            match replaced {
                Some(_) => report.replaced.push(path),
                None => report.added.push(path),
            }
            removed.extend(replaced);
            let watched = self.watched(&spec, &mount, digest, state)?;
            next.push(Loaded { spec, digest, mount, watched });
        }
        for before in loaded.iter() {
            if next.iter().all(|next| next.spec.path != before.spec.path) {
                removed.push(Replaced::lock(before)?);
                report.removed.push(before.spec.path.to_string());
            }
        }
        let mounts = mounts(&next)?;
        if let Some(changed) = removed.iter().find(|removed| removed.has_changed()) {
            return Err(ReloadError::Changed(changed.mount.path().clone()));
        }
        if let Some(commands) = &self.commands {
            commands.reload(&config.commands)?;
        }
        self.registry.exchange(mounts);
        // A watcher of a file may wait for the lock.
        drop(removed);
        *loaded = next;
        self.settings.store(Arc::new(settings));
        info!(?report, "settings reloaded");
        Ok(report)
    }

    /// Returns the module of the settings for the mount at a path.
    #[cfg(feature = "fleet")]
    pub(super) async fn specified(&self, path: &str) -> Option<Candidate> {
        let loaded = self.loaded.lock().await;
        let loaded = loaded.iter().find(|loaded| loaded.spec.path.as_str() == path);
        loaded.map(|loaded| loaded.spec.candidate())
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
            let mount = Arc::new(self.context.mount(&spec)?.replacing(&before));
            let (candidate, digest) = read(spec.candidate(), &spec).await?;
            mount.load_in_background(candidate, state).await?;
            let mut next = loaded.clone();
            next[0] = Loaded { spec, digest, mount, watched: None };
            self.registry.exchange(mounts(&next)?);
            *loaded = next;
            info!(%dialect, "API serves the dialect of the relayer");
        }
        *self.relayer_dialect.lock().unwrap_or_else(PoisonError::into_inner) = Some(dialect);
        Ok(())
    }

    /// Watches the module's file, if it has one and `--watch` is given.
    fn watched(
        &self,
        spec: &MountSpec,
        mount: &Arc<Mount>,
        digest: Option<Digest>,
        state: &StateReader,
    ) -> Result<Option<Arc<Watched>>, ReloadError> {
        let Some(file) = spec.file().filter(|_| self.is_watching()) else {
            return Ok(None);
        };
        info!(mount = %mount.path(), file = %file.display(), "watching module file");
        let module = Arc::new(WatchedModule::new(mount, file, digest, spec.sha256, state));
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
    fn is(&self, spec: &MountSpec, digest: Option<Digest>) -> bool {
        let last_read = self.watched.as_ref().map(|watched| watched.module.last_read());
        let active = self.mount.module().map(|module| Some(module.digest()));
        let mut digests = [Some(self.digest), active, last_read].into_iter().flatten();
        self.spec == *spec && digests.any(|own| own == digest)
    }
}

impl ModuleContext {
    /// Creates the mount of a specification, without a module.
    fn mount(&self, spec: &MountSpec) -> Result<Mount, EngineError> {
        spec.mount(self.code_cache.clone(), self.compiler.clone())
    }
}

/// A mount that a reload removes or replaces, and its active module at the beginning. It is
/// locked: no swap starts there until the reload is done.
struct Replaced {
    mount: Arc<Mount>,
    active: Option<Arc<ActiveModule>>,
    _lock: OwnedMutexGuard<()>,
}

impl Replaced {
    fn lock(loaded: &Loaded) -> Result<Self, ReloadError> {
        let mount = Arc::clone(&loaded.mount);
        let lock = mount.try_lock_deployment();
        let lock = lock.ok_or_else(|| ReloadError::Busy(mount.path().clone()))?;
        let active = mount.active().map(|active| Arc::clone(&active));
        Ok(Self { mount, active, _lock: lock })
    }

    /// Returns whether another module was activated since, such as by a rollback.
    fn has_changed(&self) -> bool {
        let active = self.mount.active().map(|active| Arc::as_ptr(&active));
        active != self.active.as_ref().map(Arc::as_ptr)
    }
}

/// Reads the module of a mount, on a thread that may wait for a registry. Returns its digest,
/// too, if it could be read.
async fn read(
    candidate: Candidate,
    spec: &MountSpec,
) -> Result<(Candidate, Option<Digest>), ReloadError> {
    let size = spec.swap.size;
    spawn_blocking(move || candidate.read(size)).await.map_err(ReloadError::Reading)
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
