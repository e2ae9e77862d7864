//! From bytes to a module that can be asked, or why not.

use std::fmt::{self, Debug, Formatter};
use std::path::Path;
use std::sync::Arc;

use bytesize::ByteSize;
use http::HeaderValue;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

use super::DEFAULT_MODULE;
use super::audit;
use super::digest::Digest;
use super::encode;
use super::engine::Engine;
use super::instance::{self, Call};
use super::limits::Limits;
use super::load_error::LoadError;
use super::start::Start;
use super::tally::{Failures, Tally};
use crate::files;

/// A component that can be asked. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    engine: Engine,
    pre: InstancePre<Call>,
    handler: ComponentExportIndex,
    starts_long: bool,
    name: Arc<str>,
    mount: Arc<str>,
    digest: Digest,
    label: HeaderValue,
    tally: Tally,
}

/// No component is larger, in bytes.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// What the module that serves the API is called.
pub const API: &str = "api";

impl Module {
    /// The module that comes with this crate.
    pub fn embedded(engine: &Engine) -> Result<Self, LoadError> {
        Self::from_bytes(engine, "embedded", DEFAULT_MODULE)
    }

    /// Reads, compiles and checks a component from a file. Takes some tens of
    /// milliseconds, on the calling thread.
    pub fn from_file(engine: &Engine, file: &Path) -> Result<Self, LoadError> {
        let bytes = files::read(file, MOST_BYTES)
            .map_err(|source| LoadError::Unreadable { file: file.to_owned(), source })?;
        Self::from_bytes(engine, &file.display().to_string(), &bytes)
    }

    /// The same as [`Module::from_bytes`], for a component that nobody knows
    /// yet: where the engine's code cache has a compiler, that compiles it, in
    /// a process which may have so much memory and which is stopped when what
    /// is returned is dropped.
    pub async fn from_untrusted_bytes(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        memory: ByteSize,
    ) -> Result<Self, LoadError> {
        encode::check(name, bytes)?;
        if let Some(code_cache) = &engine.options.code_cache {
            code_cache.fill(name, bytes, memory).await?;
        }
        Self::from_bytes(engine, name, bytes)
    }

    /// Compiles and checks a component, or a core module that says which world
    /// it is of, as `cargo build` leaves it. `name` is what messages call it.
    pub fn from_bytes(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        let encoded = encode::component(name, bytes)?;
        let name = || name.to_owned();
        let component = Component::from_binary(&engine.wasmtime, &encoded).map_err(|error| {
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
        let start = Start::of(&encoded);
        let memory = ByteSize::b(start.memory);
        if memory > engine.limits().memory {
            let reason = format!("its memories begin with {memory} together");
            return Err(LoadError::Memory { name: name(), limit: engine.limits().memory, reason });
        }
        let offences = audit::imports(&component, engine.options.wasi);
        if !offences.is_empty() {
            return Err(LoadError::Imports { name: name(), offences });
        }
        let imports: Vec<_> = imports(&component);
        let lacking = engine.grants().lack(&imports);
        if !lacking.is_empty() {
            let granted = engine.grants().clone();
            return Err(LoadError::NotGranted { name: name(), lacking, granted });
        }
        let handler = audit::handler(&component)
            .map_err(|found| LoadError::NoHandler { name: name(), found })?;
        let misfit = |error: wasmtime::Error| LoadError::Types {
            name: name(),
            reason: format!("{error:#}"),
        };
        let pre = engine.linker.instantiate_pre(&component).map_err(misfit)?;
        let handler = instance::handler(&pre, &handler).map_err(misfit)?;
        let digest = Digest::of(bytes);
        Ok(Self(Arc::new(Parts {
            engine: engine.clone(),
            pre,
            handler,
            // What is linked with WASI may have to wait.
            starts_long: engine.options.wasi || start.is_long,
            name: API.into(),
            mount: "/".into(),
            digest,
            label: label(API, digest),
            tally: Tally::default(),
        })))
    }

    /// The same module under another name than [`API`], such as that of an
    /// extension: some letters, digits and `-_.`.
    ///
    /// # Panics
    /// Where the name has characters that a header cannot have.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let label = label(name, self.digest());
        Self(Arc::new(Parts { name: name.into(), label, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The same module, which is told that it is mounted at this path.
    #[must_use]
    pub(crate) fn mounted_at(self, path: &str) -> Self {
        Self(Arc::new(Parts { mount: path.into(), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Whether it serves the API.
    pub(super) fn is_api(&self) -> bool {
        &*self.0.mount == "/"
    }

    /// Where it is told that it is mounted.
    pub(super) fn mount(&self) -> Arc<str> {
        Arc::clone(&self.0.mount)
    }

    /// The path of its mount.
    pub(super) fn mount_path(&self) -> &str {
        &self.0.mount
    }

    /// The module's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What each of its answers says in `x-relayer-module`: `NAME@DIGEST`, of
    /// the digest the first 12 digits.
    #[must_use]
    pub fn label(&self) -> &HeaderValue {
        &self.0.label
    }

    /// The same module, counted anew.
    #[must_use]
    pub fn afresh(self) -> Self {
        Self(Arc::new(Parts { tally: Tally::default(), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The first run that failed, counted from 1.
    #[must_use]
    pub fn first_fault(&self) -> Option<u64> {
        self.0.tally.first_fault()
    }

    /// How often it was asked, by this and every clone of it.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.0.tally.runs()
    }

    /// How often it did not answer, by cause.
    #[must_use]
    pub fn failures(&self) -> Failures {
        self.0.tally.failures()
    }

    /// How often it trapped, took too long or answered what HTTP does not
    /// allow.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.failures().faults()
    }

    /// The interfaces of the contract that it imports.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        imports(self.0.pre.component())
    }

    /// What runs it.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// What the module may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.0.engine.limits()
    }

    /// The module's version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    pub(super) fn pre(&self) -> &InstancePre<Call> {
        &self.0.pre
    }

    /// What it is asked with.
    pub(super) fn handler(&self) -> ComponentExportIndex {
        self.0.handler
    }

    /// Whether an instance may take long before it is asked.
    pub(super) fn starts_long(&self) -> bool {
        self.0.starts_long
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0.tally
    }
}

/// Whether it is the pool that has no room for it. The engine has no type for
/// that.
fn is_too_much(reason: &str) -> bool {
    reason.contains("exceeds the")
        && ["limit", "configured maximum"].iter().any(|text| reason.contains(text))
}

fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}

fn label(name: &str, digest: Digest) -> HeaderValue {
    HeaderValue::try_from(format!("{name}@{}", digest.short()))
        .expect("a module's name is what a header can have")
}

impl Debug for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("digest", &self.digest()).finish_non_exhaustive()
    }
}
