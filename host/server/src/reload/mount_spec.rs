//! The specification of a mount, from the settings and the command line.

use std::path::Path;

use relayer_rest_conformance::Dialect;
use relayer_rest_modules::BundledExtension;
use relayer_rest_sandbox::{
    API, CodeCache, Compiler, Digest, Engine, EngineError, EngineOptions, Grants, HeaderGrants,
    Limits, RequestHeaders,
};

use crate::config::Config;
use crate::registry::{
    Candidate, FailurePolicy, ModuleLocation, Mount, MountPath, RegistryAccess, Source, SwapLimits,
};

/// A mount, as the settings specify it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are settings")]
pub struct MountSpec {
    /// The name of its modules.
    pub name: String,
    /// Its path.
    pub path: MountPath,
    /// The location of its module; none for a bundled module.
    pub location: Option<ModuleLocation>,
    /// The registries of its modules, and the signature that they must have.
    pub registries: RegistryAccess,
    /// The digest that the module must have.
    pub sha256: Option<Digest>,
    /// Whether the server does not start without its module.
    pub is_required: bool,
    grants: Grants,
    headers: HeaderGrants,
    request_headers: RequestHeaders,
    wasi: bool,
    keeps_components: bool,
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
        let location = config.module.file.clone();
        let named = config.module.dialect;
        let follows_relayer = named.is_none() && location.is_none() && relayer_dialect.is_some();
        let relayer_dialect = relayer_dialect.filter(|_| follows_relayer);
        let dialect = named.or(relayer_dialect).unwrap_or_default();
        let settings = &config.registries;
        let access = |signer: Option<&String>| RegistryAccess {
            settings: settings.clone(),
            signer: signer.cloned(),
        };
        let api = Self {
            name: API.to_owned(),
            path: MountPath::root(),
            location,
            registries: access(config.module.signer.as_ref()),
            sha256: config.module.sha256,
            is_required: true,
            grants: Grants::all(),
            headers: config.module.headers.clone(),
            request_headers: config.module.request_headers.clone(),
            wasi: config.module.wasi,
            keeps_components: config.capsules.folder.is_some(),
            dialect,
            follows_relayer,
            limits: config.module.limits.clone(),
            failure_policy: config.module.failure_policy.clone(),
            swap: config.swap.clone(),
        };
        let extensions = config.extension.iter().map(|extension| Self {
            name: extension.name.as_str().to_owned(),
            path: extension.path(),
            location: extension.module.clone(),
            registries: access(extension.signer.as_ref()),
            sha256: extension.sha256,
            is_required: extension.required,
            grants: extension.granted(),
            headers: extension.headers.clone(),
            request_headers: extension.request_headers.clone(),
            wasi: extension.wasi,
            keeps_components: config.capsules.folder.is_some(),
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

    /// Creates the mount, without a module, for an engine of these options.
    pub fn mount(
        &self,
        code_cache: Option<CodeCache>,
        compiler: Option<Compiler>,
    ) -> Result<Mount, EngineError> {
        let engine = Engine::with(EngineOptions {
            limits: self.limits.clone(),
            grants: self.grants.clone(),
            headers: self.headers.clone(),
            request_headers: self.request_headers.clone(),
            wasi: self.wasi,
            code_cache,
            compiler,
            quick_compilation: false,
            keeps_components: self.keeps_components,
        })?;
        Ok(self.mount_with(engine))
    }

    /// Creates the mount, without a module, for the engine of another mount with this
    /// specification.
    pub(super) fn mount_with(&self, engine: Engine) -> Mount {
        Mount::empty(self.path.clone(), &self.name, engine)
            .with_dialect(self.dialect)
            .with_required(self.is_required)
            .with_failure_policy(self.failure_policy.clone())
            .with_swap_limits(self.swap.clone())
            .with_registries(self.registries.clone())
    }

    /// Returns its module, to be deployed.
    #[must_use]
    pub fn candidate(&self) -> Candidate {
        let source = match &self.location {
            None => Source::Bundled(self.bundled()),
            Some(location) => Source::new(location.clone(), &self.registries),
        };
        Candidate { sha256: self.sha256, ..Candidate::new(source) }
    }

    /// Returns its module, from a file that may still be written.
    pub(super) fn changing_candidate(&self) -> Candidate {
        let mut candidate = self.candidate();
        if let Source::File(file) = candidate.source {
            candidate.source = Source::ChangingFile(file);
        }
        candidate
    }

    /// Returns the bundled component.
    fn bundled(&self) -> &'static [u8] {
        if self.path == MountPath::root() {
            return self.dialect.component();
        }
        let included = BundledExtension::named(&self.name);
        included.expect("the settings name a file where none comes along").component
    }

    /// Returns the file of its module, if it is in one.
    pub(super) fn file(&self) -> Option<&Path> {
        self.location.as_ref()?.file()
    }

    /// Returns the location of its module in messages.
    #[must_use]
    pub fn name_of_file(&self) -> String {
        self.location.as_ref().map_or("embedded".to_owned(), ToString::to_string)
    }
}
