//! The specification of a mount, from the settings and the command line.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::compile;
use super::reloadable::settled;
use super::serve_error::ServeError;
use crate::config::Config;
use crate::conformance::Dialect;
use crate::files;
use crate::module::{
    API, BundledExtension, CodeCache, Digest, Engine, EngineError, EngineOptions, Grants,
    HeaderGrants, Limits, LoadError, Module,
};
use crate::registry::{FailurePolicy, Mount, MountPath, SwapLimits};

/// A mount, as the settings specify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountSpec {
    pub(super) name: String,
    pub(super) path: MountPath,
    /// The file of its module; none for a bundled module.
    pub(super) file: Option<PathBuf>,
    /// The digest that the module must have.
    pub(super) sha256: Option<Digest>,
    grants: Grants,
    headers: HeaderGrants,
    wasi: bool,
    dialect: Dialect,
    limits: Limits,
    budget: FailurePolicy,
    pub(super) swap: SwapLimits,
}

impl MountSpec {
    /// Returns all mounts, the API's first.
    pub(super) fn all(
        config: &Config,
        module: Option<&Path>,
        dialect: Option<Dialect>,
    ) -> Vec<Self> {
        let api = Self {
            name: API.to_owned(),
            path: MountPath::root(),
            file: module.map(Path::to_owned).or_else(|| config.module.file.clone()),
            // This digest is of the file in the settings.
            sha256: config.module.sha256.filter(|_| module.is_none()),
            grants: Grants::all(),
            headers: config.module.headers.clone(),
            wasi: config.module.wasi,
            dialect: dialect.unwrap_or(config.module.dialect),
            limits: config.module.limits.clone(),
            budget: config.module.budget.clone(),
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
            limits: extension.limits.clone(),
            budget: extension.budget.clone(),
            swap: config.swap.clone(),
        });
        std::iter::once(api).chain(extensions).collect()
    }

    /// Creates the engine that runs its module.
    pub(super) fn engine(&self, code_cache: Option<CodeCache>) -> Result<Engine, EngineError> {
        Engine::with(EngineOptions {
            limits: self.limits.clone(),
            grants: self.grants.clone(),
            headers: self.headers.clone(),
            wasi: self.wasi,
            code_cache,
            compiler: Some(compile::compiler()),
        })
    }

    /// Reads the component, and checks its digest.
    pub(super) fn read(&self) -> Result<Cow<'static, [u8]>, ServeError> {
        self.read_by(|file| files::read(file, self.swap.size.as_u64()))
    }

    /// Reads the component as [`MountSpec::read`] does, from a file that may still be
    /// written.
    pub(super) fn read_when_stable(&self) -> Result<Cow<'static, [u8]>, ServeError> {
        self.read_by(|file| settled(file, self.swap.size.as_u64()))
    }

    fn read_by(
        &self,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Cow<'static, [u8]>, ServeError> {
        let bytes = match &self.file {
            None => Cow::Borrowed(self.bundled()),
            Some(file) => Cow::Owned(read(file).map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => {
                    let most = self.swap.size;
                    self.rejected(format!(
                        "it is larger than {most}; raise swap.size where that is right"
                    ))
                }
                _ => self.fault(LoadError::Unreadable { file: file.clone(), source }),
            })?),
        };
        let digest = Digest::of(&bytes);
        match self.sha256 {
            Some(wanted) if wanted != digest => {
                let name = self.name_of_file();
                Err(self.fault(LoadError::Digest { name, digest, wanted }))
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the bundled component.
    fn bundled(&self) -> &'static [u8] {
        if self.is_api() {
            return self.dialect.component();
        }
        let included = BundledExtension::of(&self.name);
        included.expect("the settings name a file where none comes along").component
    }

    /// Creates a mount with this module.
    pub(super) fn mount(&self, module: Module) -> Mount {
        let module = module.named(&self.name);
        let mount = if self.is_api() {
            Mount::api(module).with_dialect(self.dialect)
        } else {
            Mount::extension(self.path.clone(), module)
        };
        mount.with_failure_policy(self.budget.clone()).with_swap_limits(self.swap.clone())
    }

    /// Returns the name of its module's file in messages.
    pub(super) fn name_of_file(&self) -> String {
        self.file.as_ref().map_or("embedded".to_owned(), |file| file.display().to_string())
    }

    /// Returns the error for a module that cannot be loaded, with its mount.
    pub(super) fn fault(&self, error: LoadError) -> ServeError {
        if self.is_api() {
            return ServeError::Module(error);
        }
        ServeError::Extension {
            name: self.name.clone(),
            path: self.path.clone(),
            error: error.into(),
        }
    }

    /// Returns the error for a quarantined module.
    pub(super) fn quarantined(&self, reason: &str) -> ServeError {
        self.rejected(format!(
            "it was taken out of service before: {reason}; mend it and give the new one, or have this one again with `relayer-rest swap --force`"
        ))
    }

    pub(super) fn too_slow(&self) -> ServeError {
        let time = self.swap.time;
        self.rejected(format!(
            "it takes longer than {time:?} to look at; raise swap.time where that is right"
        ))
    }

    pub(super) fn rejected(&self, reason: String) -> ServeError {
        ServeError::Unfit { path: self.path.clone(), module: self.name_of_file(), reason }
    }

    fn is_api(&self) -> bool {
        self.path == MountPath::root()
    }
}
