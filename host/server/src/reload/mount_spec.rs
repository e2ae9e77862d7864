//! The specification of a mount, from the settings and the command line.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use relayer_rest_common::{files, stable_file};
use relayer_rest_conformance::Dialect;
use relayer_rest_modules::BundledExtension;
use relayer_rest_sandbox::{
    API, CodeCache, Compiler, Digest, Engine, EngineError, EngineOptions, Grants, HeaderGrants,
    Limits, LoadError, Module,
};
use tokio::time::timeout;

use super::error::ReloadError;
use crate::config::Config;
use crate::registry::{FailurePolicy, Mount, MountPath, SwapLimits};

/// A mount, as the settings specify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSpec {
    /// The name of its modules.
    pub name: String,
    /// Its path.
    pub path: MountPath,
    /// The file of its module; none for a bundled module.
    pub file: Option<PathBuf>,
    /// The digest that the module must have.
    pub sha256: Option<Digest>,
    grants: Grants,
    headers: HeaderGrants,
    wasi: bool,
    pub(super) dialect: Dialect,
    /// Whether the dialect is the relayer's.
    pub(super) follows_relayer: bool,
    limits: Limits,
    failure_policy: FailurePolicy,
    /// The limits for swaps.
    pub swap: SwapLimits,
}

impl MountSpec {
    /// Returns all mounts, the API's first. Its dialect is the one of the settings, or the
    /// relayer's if its module is bundled.
    #[must_use]
    pub fn all(config: &Config, relayer_dialect: Option<Dialect>) -> Vec<Self> {
        let file = config.module.file.clone();
        let named = config.module.dialect;
        let follows_relayer = named.is_none() && file.is_none() && relayer_dialect.is_some();
        let relayer_dialect = relayer_dialect.filter(|_| follows_relayer);
        let dialect = named.or(relayer_dialect).unwrap_or_default();
        let api = Self {
            name: API.to_owned(),
            path: MountPath::root(),
            file,
            sha256: config.module.sha256,
            grants: Grants::all(),
            headers: config.module.headers.clone(),
            wasi: config.module.wasi,
            dialect,
            follows_relayer,
            limits: config.module.limits.clone(),
            failure_policy: config.module.failure_policy.clone(),
            swap: config.swap.clone(),
        };
        let extensions = config.extension.iter().map(|extension| Self {
            name: extension.name.as_str().to_owned(),
            path: extension.path(),
            file: extension.module.clone(),
            sha256: extension.sha256,
            grants: extension.granted(),
            headers: extension.headers.clone(),
            wasi: extension.wasi,
            dialect: Dialect::Any,
            follows_relayer: false,
            limits: extension.limits.clone(),
            failure_policy: extension.failure_policy.clone(),
            swap: config.swap.clone(),
        });
        std::iter::once(api).chain(extensions).collect()
    }

    /// Returns the specification with another dialect.
    pub(super) fn in_dialect(&self, dialect: Dialect) -> Self {
        Self { dialect, ..self.clone() }
    }

    /// Creates the engine that runs its module.
    pub fn engine(
        &self,
        code_cache: Option<CodeCache>,
        compiler: Option<Compiler>,
    ) -> Result<Engine, EngineError> {
        Engine::with(EngineOptions {
            limits: self.limits.clone(),
            grants: self.grants.clone(),
            headers: self.headers.clone(),
            wasi: self.wasi,
            code_cache,
            compiler,
            quick_compilation: false,
        })
    }

    /// Reads the component, and checks its digest.
    pub fn read(&self) -> Result<Cow<'static, [u8]>, ReloadError> {
        self.read_by(|file| files::read(file, self.swap.size.as_u64()))
    }

    /// Reads the component as [`MountSpec::read`] does, from a file that may still be
    /// written.
    pub fn read_when_stable(&self) -> Result<Cow<'static, [u8]>, ReloadError> {
        self.read_by(|file| stable_file::read(file, self.swap.size.as_u64()))
    }

    fn read_by(
        &self,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Cow<'static, [u8]>, ReloadError> {
        let bytes = match &self.file {
            None => Cow::Borrowed(self.bundled()),
            Some(file) => Cow::Owned(read(file).map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => {
                    let max = self.swap.size;
                    self.rejected(format!("larger than {max}; raise swap.size"))
                }
                _ => self.load_error(LoadError::Unreadable { file: file.clone(), source }),
            })?),
        };
        let digest = Digest::new(&bytes);
        match self.sha256 {
            Some(wanted) if wanted != digest => {
                let name = self.name_of_file();
                Err(self.load_error(LoadError::Digest { name, digest, wanted }))
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the bundled component.
    fn bundled(&self) -> &'static [u8] {
        if self.is_api() {
            return self.dialect.component();
        }
        let included = BundledExtension::named(&self.name);
        included.expect("the settings name a file where none comes along").component
    }

    /// Loads its module, compiled within the bounds of the mount. A bundled module needs
    /// no bounds.
    pub async fn load(&self, engine: &Engine, bytes: &[u8]) -> Result<Module, ReloadError> {
        let name = self.name_of_file();
        let module = if self.file.is_none() {
            Module::from_bytes(engine, &name, bytes)
        } else {
            let module = Module::from_untrusted_bytes(engine, &name, bytes, self.swap.memory);
            timeout(self.swap.time, module).await.map_err(|_| self.too_slow())?
        };
        module.map_err(|error| self.load_error(error))
    }

    /// Creates a mount with this module.
    #[must_use]
    pub fn mount(&self, module: Module) -> Mount {
        let module = module.named(&self.name);
        let mount = if self.is_api() {
            Mount::api(module).with_dialect(self.dialect)
        } else {
            Mount::extension(self.path.clone(), module)
        };
        mount.with_failure_policy(self.failure_policy.clone()).with_swap_limits(self.swap.clone())
    }

    /// Returns the name of its module's file in messages.
    #[must_use]
    pub fn name_of_file(&self) -> String {
        self.file.as_ref().map_or("embedded".to_owned(), |file| file.display().to_string())
    }

    /// Returns the error for a module that cannot be loaded, with its mount.
    #[must_use]
    pub fn load_error(&self, error: LoadError) -> ReloadError {
        if self.is_api() {
            return ReloadError::Module(error);
        }
        ReloadError::Extension {
            name: self.name.clone(),
            path: self.path.clone(),
            error: error.into(),
        }
    }

    /// Returns the error for a quarantined module.
    #[must_use]
    pub fn quarantined(&self, reason: &str) -> ReloadError {
        self.rejected(format!(
            "quarantined: {reason}; give a corrected module, or swap this one in with `relayer-rest swap --force`"
        ))
    }

    /// Returns the error for a check that takes too long.
    #[must_use]
    pub fn too_slow(&self) -> ReloadError {
        let time = self.swap.time;
        self.rejected(format!("no result within {time:?}; raise swap.time"))
    }

    /// Returns the error for a rejected module.
    #[must_use]
    pub fn rejected(&self, reason: String) -> ReloadError {
        ReloadError::Rejected { path: self.path.clone(), module: self.name_of_file(), reason }
    }

    fn is_api(&self) -> bool {
        self.path == MountPath::root()
    }
}
