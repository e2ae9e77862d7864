//! Deploys the builds of a module: the first one on a new mount, later ones by swaps.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use relayer_rest_conformance as conformance;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{
    API, Engine, EngineError, EngineOptions, Grants, GuestRequest, HeaderGrants, Limits, LoadError,
    Module,
};
use relayer_rest_server::config::ExtensionName;
use relayer_rest_server::registry::{
    Candidate, FailurePolicy, Mount, MountError, MountPath, MountPathError, Mounts, Registry,
    Source, SwapLimits, SwapOutcome, SwapReport,
};
use relayer_rest_state::StateReader;

use crate::exercise::AuthorRequests;

/// The path below which extensions are mounted by default.
const EXTENSIONS: &str = "/ext";

/// The author sees the failures of a build, instead of responses of the one before it.
const FAILURES: FailurePolicy = FailurePolicy {
    failures: 1000,
    window: Duration::from_millis(1),
    failure_rate: 100,
    probation: 0,
};

/// The mount of a module in development, beside the API.
pub(super) struct Deployment {
    pub(super) registry: Arc<Registry>,
    engine: Engine,
    state: StateReader,
    /// The dialect in which the module serves the API; none for an extension.
    dialect: Option<Dialect>,
    api: Arc<Mount>,
    /// The response headers that the module may set, although they have effects beyond its mount.
    headers: HeaderGrants,
    /// The limits for the checks of each build.
    swap: SwapLimits,
    /// The mount that stands for the module's before its first build, whose name is not known.
    placeholder: Arc<Mount>,
    mount: Option<Arc<Mount>>,
}

impl Deployment {
    /// Creates a server's mounts, without the module. `relayer_dialect` is the dialect of the
    /// API beside an extension.
    pub(super) fn new(
        state: StateReader,
        dialect: Option<Dialect>,
        relayer_dialect: Dialect,
        headers: HeaderGrants,
        swap: SwapLimits,
    ) -> Result<Self, DeploymentError> {
        // The settings that a mount needs are printed once they are known.
        let limits = Limits::default();
        let options = EngineOptions {
            wasi: true,
            quick_compilation: true,
            headers: headers.clone(),
            ..(&limits).into()
        };
        let engine = Engine::with(options)?;
        let component = relayer_dialect.component();
        let module = Module::from_bytes(&engine, "embedded", component)?;
        let api = Arc::new(Mount::api(module).with_dialect(relayer_dialect));
        let path = EXTENSIONS.parse()?;
        let placeholder = Arc::new(Mount::empty(path, "module", engine.clone()));
        let mounts = Mounts::new(Arc::clone(&api));
        let mounts = match dialect {
            Some(_) => mounts,
            None => mounts.with(Arc::clone(&placeholder))?,
        };
        let registry = Arc::new(Registry::with_mounts(mounts));
        Ok(Self { registry, engine, state, dialect, api, headers, swap, placeholder, mount: None })
    }

    /// Records the reason why the first build has failed, until one succeeds.
    pub(super) fn failed(&self, reason: &str) {
        self.placeholder.disable(reason);
    }

    /// Deploys a component, and returns the report of a build that serves. If it fails a check,
    /// returns the reason, and the build before it stays active.
    pub(super) async fn deploy(
        &mut self,
        file: &Path,
        requests: &AuthorRequests,
    ) -> Result<SwapReport, String> {
        let mount = self.mount.clone().unwrap_or_else(|| Arc::new(self.empty_mount(file)));
        let requests = self.requests(&mount, requests);
        let source = Source::File(file.to_owned());
        // A build that clients saw failing may be tried again.
        let candidate = Candidate { force: true, requests, ..Candidate::new(source) };
        let report = mount.swap_here(candidate, &self.state).await;
        if let SwapOutcome::Rejected { message, .. } = report.outcome {
            return Err(message);
        }
        if self.mount.is_none() {
            self.registry.exchange(self.mounts(&mount)?);
            self.mount = Some(mount);
        }
        Ok(report)
    }

    fn empty_mount(&self, file: &Path) -> Mount {
        let mount = if let Some(dialect) = self.dialect {
            Mount::empty(MountPath::root(), API, self.engine.clone()).with_dialect(dialect)
        } else {
            let name = extension_name(file);
            Mount::empty(MountPath::for_extension(&name), &name, self.engine.clone())
        };
        mount.with_failure_policy(FAILURES).with_swap_limits(self.swap.clone())
    }

    fn mounts(&self, mount: &Arc<Mount>) -> Result<Mounts, String> {
        match self.dialect {
            Some(_) => Ok(Mounts::new(Arc::clone(mount))),
            None => Mounts::new(Arc::clone(&self.api))
                .with(Arc::clone(mount))
                .map_err(|error| error.to_string()),
        }
    }

    /// Returns the requests whose responses are compared: the ones of the author, and those
    /// for the declared routes of the active build.
    fn requests(&self, mount: &Mount, requests: &AuthorRequests) -> Vec<Arc<GuestRequest>> {
        let snapshot = self.state.snapshot();
        let declared = |module| conformance::declared_targets(&module, &snapshot);
        let declared = mount.module().map(declared).unwrap_or_default();
        let declared = declared.into_iter().filter_map(|target| {
            let target = PathAndQuery::try_from(target).ok()?;
            Some(Arc::new(GuestRequest::new(Method::GET, target, HeaderMap::new())))
        });
        requests.requests().chain(declared).collect()
    }

    /// Returns the path of the module's mount, once it has one.
    pub(super) fn path(&self) -> Option<&MountPath> {
        self.mount.as_ref().map(|mount| mount.path())
    }

    /// Returns the active build, if there is one.
    pub(super) fn module(&self) -> Option<Module> {
        self.mount.as_ref()?.module()
    }

    /// Returns the settings with which a server mounts the component in a file.
    pub(super) fn settings(&self, module: &Module, file: &Path) -> Vec<String> {
        let imports = module.imports();
        let file = toml::Value::from(file.display().to_string());
        let mut lines = match self.dialect {
            Some(dialect) => vec![
                "[module]".to_owned(),
                format!("file = {file}"),
                format!("dialect = \"{dialect}\""),
            ],
            None => vec![
                "[[extension]]".to_owned(),
                format!("name = \"{}\"", module.name()),
                format!("module = {file}"),
                Grants::needed(&imports).as_setting(),
            ],
        };
        if imports.iter().any(|import| import.starts_with("wasi:")) {
            lines.push("wasi = true".to_owned());
        }
        if self.headers != HeaderGrants::default() {
            lines.push(self.headers.as_setting());
        }
        lines
    }
}

/// The mounts of a server cannot be created.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeploymentError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Path(#[from] MountPathError),
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// Returns the name of an extension, from that of its component.
fn extension_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    if name.parse::<ExtensionName>().is_ok() { name } else { "module".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::extension_name;
    use std::path::Path;

    #[test]
    fn the_name_of_an_extension_is_that_of_its_component() {
        for (file, name) in
            [("a/my_tool.wasm", "my-tool"), ("API.wasm", "module"), ("", "module"), ("é.wasm", "-")]
        {
            assert_eq!(extension_name(Path::new(file)), name, "{file}");
        }
    }
}
