//! Loading: from a component's bytes to a module that can run, or the reason why not.

use std::fmt::{self, Debug, Formatter};
use std::path::Path;
use std::sync::Arc;

use bytesize::ByteSize;
use http::HeaderValue;
use relayer_rest_common::Digest;
use relayer_rest_common::files;
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_modules::DEFAULT_MODULE;
use tokio::sync::OnceCell;
use wasmtime::component::Component;

use super::artefact::Artefact;
use super::compiled;
use super::componentize::{self, MAX_COMPONENT_SIZE};
use super::cost::{Excess, InstanceCost};
use super::engine::Engine;
use super::handler::{Handler, HandlerName};
use super::import_check;
use super::info::{self, ModuleInfo};
use super::instance::Instantiator;
use super::limits::Limits;
use super::load_error::LoadError;
use super::long_steps::LongSteps;
use super::openapi::OpenApi;
use super::source_map::SourceMap;
use super::stats::{Failures, ModuleStats};
use super::verify::{InitialImage, ResetStatus};
use super::world::World;

/// A loaded component that handles requests. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    engine: Engine,
    instances: Instantiator,
    digest: Digest,
    /// Its bytes, if the engine's modules keep them.
    component: Option<Arc<[u8]>>,
    openapi: Option<Arc<OpenApi>>,
    stats: ModuleStats,
    long_steps: LongSteps,
    initial_image: Arc<OnceCell<InitialImage>>,
}

/// The name of the module that serves the API.
pub const API: &str = "api";

/// The checked parts of a component that are read without compiling it.
struct Outline {
    /// The name under which it exports the handler; `None` if it has to be encoded from a core
    /// module, or if the compiler will find that it is not valid.
    handler: Option<HandlerName>,
    openapi: Option<OpenApi>,
}

impl Outline {
    fn read(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        let is_component = componentize::check(name, bytes)?;
        let world = if is_component {
            World::from_component(bytes)
        } else {
            World::from_core_module(bytes)
        };
        let handler = world.map(|world| exported_handler(engine, name, &world));
        // The encoder may add imports to those of a core module.
        let handler = handler.transpose()?.filter(|_| is_component);
        let openapi = OpenApi::from_component(bytes).map_err(|reason| LoadError::OpenApi {
            name: name.to_owned(),
            reason: escape_control(&truncate(&reason)),
        })?;
        Ok(Self { handler, openapi })
    }
}

impl Module {
    /// Loads the module that is bundled with this crate.
    pub fn embedded(engine: &Engine) -> Result<Self, LoadError> {
        Self::from_bytes(engine, "embedded", DEFAULT_MODULE)
    }

    /// Reads, compiles and checks a component from a file. Takes some tens of
    /// milliseconds, on the calling thread.
    pub fn from_file(engine: &Engine, file: &Path) -> Result<Self, LoadError> {
        let bytes = files::read(file, MAX_COMPONENT_SIZE)
            .map_err(|source| LoadError::Unreadable { file: file.to_owned(), source })?;
        Self::from_bytes(engine, &file.display().to_string(), &bytes)
    }

    /// Compiles and checks an untrusted component. The engine's compiler compiles it in a
    /// process of its own, with at most this much memory; that process is stopped when
    /// the returned future is dropped. Without a compiler, the component is compiled in
    /// this process, as by [`Module::from_bytes`].
    pub async fn from_untrusted_bytes(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        memory: ByteSize,
    ) -> Result<Self, LoadError> {
        let outline = Outline::read(engine, name, bytes)?;
        let artefact = compiled::compile_apart(engine, name, bytes, memory).await?;
        Self::from_artefact(engine, name, bytes, outline, &artefact)
    }

    /// Compiles and checks a component, or a core module with a note of its world, as
    /// `cargo build` produces it. Messages refer to it as `name`.
    pub fn from_bytes(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        let outline = Outline::read(engine, name, bytes)?;
        let artefact = compiled::compile_here(engine, name, bytes)?;
        Self::from_artefact(engine, name, bytes, outline, &artefact)
    }

    fn from_artefact(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        Outline { handler, openapi }: Outline,
        artefact: &Artefact,
    ) -> Result<Self, LoadError> {
        let handler = if let Some(handler) = handler {
            handler
        } else {
            let world = World::from_component(artefact.component(bytes));
            let world = world.ok_or_else(|| LoadError::Invalid {
                name: name.to_owned(),
                reason: "its types cannot be read".to_owned(),
            })?;
            exported_handler(engine, name, &world)?
        };
        let name = || name.to_owned();
        let component = artefact.load(&engine.wasmtime).map_err(|error| {
            let reason = format!("{error:#}");
            let name = name();
            if reason.contains("memory minimum") || reason.contains("minimum byte size") {
                LoadError::Memory { name, limit: engine.limits().memory, reason }
            } else if is_too_much(&reason) {
                LoadError::TooMuch { name, reason }
            } else {
                LoadError::Invalid { name, reason }
            }
        })?;
        let cost = InstanceCost::from_component(artefact.component(bytes));
        cost.check(engine.limits()).map_err(|excess| match excess {
            Excess::Memory(reason) => {
                LoadError::Memory { name: name(), limit: engine.limits().memory, reason }
            }
            Excess::Host(reason) => LoadError::TooMuch { name: name(), reason },
        })?;
        let misfit = |error: wasmtime::Error| LoadError::Types {
            name: name(),
            reason: format!("{error:#}"),
        };
        let pre = engine.linker.instantiate_pre(&component).map_err(misfit)?;
        // An error here would otherwise occur in the first request.
        component
            .initialize_copy_on_write_image()
            .map_err(|error| LoadError::Image { name: name(), reason: format!("{error:#}") })?;
        let handler = Handler::find(&pre, &handler).map_err(misfit)?;
        let digest = Digest::new(bytes);
        let info = ModuleInfo {
            name: API.into(),
            mount: "/".into(),
            label: info::label(API, digest),
            limits: engine.limits().clone(),
            request_headers: engine.options.request_headers.clone(),
            log_rate: Arc::clone(&engine.log_rate),
        };
        let instances = Instantiator {
            engine: engine.wasmtime.clone(),
            options: Arc::clone(&engine.options),
            peaks: Arc::clone(&engine.peaks),
            pre,
            handler,
            cost,
            sources: Arc::new(SourceMap::new(artefact.sources.clone())),
            info: Arc::new(info),
        };
        Ok(Self(Arc::new(Parts {
            engine: engine.clone(),
            instances,
            digest,
            component: engine.options.keeps_components.then(|| bytes.into()),
            openapi: openapi.map(Arc::new),
            stats: ModuleStats::default(),
            long_steps: LongSteps::default(),
            initial_image: Arc::default(),
        })))
    }

    /// Returns the same module under another name than [`API`], such as the name of an
    /// extension: some letters, digits and `-_.`.
    ///
    /// # Panics
    /// Panics if the name has characters that a header cannot have.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let digest = self.digest();
        self.with_info(|info| info.named(name, digest))
    }

    /// Returns the same module with the path at which it is mounted.
    #[must_use]
    pub fn mounted_at(self, path: &str) -> Self {
        self.with_info(|info| ModuleInfo { mount: path.into(), ..info })
    }

    fn with_info(self, change: impl FnOnce(ModuleInfo) -> ModuleInfo) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        let info = Arc::unwrap_or_clone(parts.instances.info);
        parts.instances.info = Arc::new(change(info));
        Self(Arc::new(parts))
    }

    /// Returns the path of its mount.
    pub(super) fn mount(&self) -> &str {
        &self.0.instances.info.mount
    }

    /// Returns the module's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.instances.info.name
    }

    /// Returns the value of `x-relayer-module` in each of its responses: `NAME@DIGEST`,
    /// with the first 12 digits of the digest.
    #[must_use]
    pub fn label(&self) -> &HeaderValue {
        &self.0.instances.info.label
    }

    /// Returns the same module, with new counters.
    #[must_use]
    pub fn afresh(self) -> Self {
        Self(Arc::new(Parts { stats: ModuleStats::default(), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Returns the number of runs of this module and of all its clones.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.0.stats.runs()
    }

    /// Returns how often it failed to respond, by cause.
    #[must_use]
    pub fn failures(&self) -> Failures {
        self.0.stats.failures()
    }

    /// Returns how often it trapped, took too long or returned an invalid response.
    #[must_use]
    pub fn module_failures(&self) -> u64 {
        self.failures().module_failures()
    }

    /// Returns the names of the interfaces that it imports.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        imports(self.0.instances.pre.component())
    }

    /// Returns the routes that it declares, if it declares any.
    #[must_use]
    pub fn openapi(&self) -> Option<&OpenApi> {
        self.0.openapi.as_deref()
    }

    /// Returns whether it can read the body of a request, which is not part of the key under
    /// which responses are cached.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.0.instances.handler.reads_bodies()
    }

    /// Returns the engine that runs it.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the limits of its instances.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.0.engine.limits()
    }

    /// Returns the module's version: the digest of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns its component, if its engine keeps components.
    #[must_use]
    pub fn component(&self) -> Option<&Arc<[u8]>> {
        self.0.component.as_ref()
    }

    /// Returns the creator of its instances.
    pub(super) fn instances(&self) -> &Instantiator {
        &self.0.instances
    }

    /// Returns the cost of creating an instance.
    #[must_use]
    pub fn instance_cost(&self) -> &InstanceCost {
        &self.0.instances.cost
    }

    /// Returns the checks of slots that its engine has made.
    #[must_use]
    pub fn resets(&self) -> ResetStatus {
        self.0.engine.verifier.status()
    }

    /// Returns the initial image of its instances, once it is known.
    pub(super) fn initial_image(&self) -> &OnceCell<InitialImage> {
        &self.0.initial_image
    }

    pub(super) fn long_steps(&self) -> &LongSteps {
        &self.0.long_steps
    }

    /// Returns its counters, which its clones share.
    #[must_use]
    pub fn stats(&self) -> &ModuleStats {
        &self.0.stats
    }
}

/// Returns the name under which a component exports the handler, if it passes the checks of its
/// imports and exports. Messages refer to the component as `name`.
fn exported_handler(engine: &Engine, name: &str, world: &World) -> Result<HandlerName, LoadError> {
    let name = || name.to_owned();
    let forbidden = import_check::forbidden(world, engine.options.wasi);
    if !forbidden.is_empty() {
        return Err(LoadError::Imports { name: name(), forbidden });
    }
    let imports: Vec<_> = world.imports.iter().map(|import| import.name.clone()).collect();
    let lacking = engine.grants().lack(&imports);
    if !lacking.is_empty() {
        let granted = engine.grants().clone();
        return Err(LoadError::NotGranted { name: name(), lacking, granted });
    }
    import_check::handler(world).map_err(|found| LoadError::NoHandler { name: name(), found })
}

/// Returns whether the engine's pool has no room for a component. The engine has no error
/// type for that.
fn is_too_much(reason: &str) -> bool {
    reason.contains("exceeds the")
        && ["limit", "configured maximum"].iter().any(|text| reason.contains(text))
}

fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}

impl Debug for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("digest", &self.digest()).finish_non_exhaustive()
    }
}
