//! From bytes to a module that can be asked, or why not.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use bytesize::ByteSize;
use http::HeaderValue;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use wasmparser::{Parser, Payload};
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

use super::DEFAULT_MODULE;
use super::audit::{self, Offence};
use super::contract::{CONTRACT_VERSION, HANDLER, interface};
use super::encode;
use super::engine::Engine;
use super::grants::Grants;
use super::instance::{self, Call};
use super::limits::Limits;
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
    has_start: bool,
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

/// A component's version: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// A component that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("module {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not WebAssembly.
    #[error(
        "module {name}: is not WebAssembly: a component starts with the bytes 00 61 73 6d 0d 00 01 00"
    )]
    NotWasm {
        /// The module.
        name: String,
    },
    /// It is a core module that does not say what it is to be.
    #[error(
        "module {name}: is a core module, not a component, and has no note of the contract; build it with relayer-rest-sdk or wit-bindgen, or make a component of it with `wasm-tools component new`"
    )]
    CoreModule {
        /// The module.
        name: String,
    },
    /// It is a core module of which no component can be made.
    #[error(
        "module {name}: no component can be made of this core module: {reason}; build it against this host's wit/"
    )]
    Encode {
        /// The module.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// It is not a valid component.
    #[error("module {name}: is not a valid component: {reason}")]
    Invalid {
        /// The module.
        name: String,
        /// What the compiler says.
        reason: String,
    },
    /// The compiler did not come to its end.
    #[error(
        "module {name}: cannot be compiled: the compiler, which may have {limit} of memory, gave up: {reason}; raise swap.memory where the module is right to need more"
    )]
    Compiler {
        /// The module.
        name: String,
        /// What is known of its end.
        reason: String,
        /// The memory that it may have.
        limit: ByteSize,
    },
    /// It wants more memory from the start than it may have.
    #[error(
        "module {name}: wants more memory than the limit of {limit}: {reason}; raise limits.memory in the settings"
    )]
    Memory {
        /// The module.
        name: String,
        /// The limit.
        limit: ByteSize,
        /// How much it wants.
        reason: String,
    },
    /// It wants more of another kind than it may have.
    #[error("module {name}: asks for more than a module may have: {reason}{}", advice(reason))]
    TooMuch {
        /// The module.
        name: String,
        /// What it wants, and what there is.
        reason: String,
    },
    /// It asks for more than the contract has.
    #[error(
        "module {name}: imports what a module cannot have: {}; it can import {}",
        list(offences),
        audit::allowed()
    )]
    Imports {
        /// The module.
        name: String,
        /// Each import that is too much.
        offences: Vec<Offence>,
    },
    /// It asks for more than its mount is granted.
    #[error(
        "module {name}: imports {}, which it is not granted (granted: {granted}); where it may, write {} into its [[extension]]",
        interfaces(lacking), granted.and(lacking).as_setting()
    )]
    NotGranted {
        /// The module.
        name: String,
        /// The names of the interfaces that it may not import.
        lacking: Vec<&'static str>,
        /// What its mount is granted.
        granted: Grants,
    },
    /// It is not the component that was meant.
    #[error(
        "module {name}: has the SHA-256 {digest}, not {wanted} as was asked for; give the file that was meant, or the digest of this one"
    )]
    Digest {
        /// The module.
        name: String,
        /// Its digest.
        digest: Digest,
        /// The digest that it was to have.
        wanted: Digest,
    },
    /// It does not export the handler.
    #[error("module {name}: does not export {}, which the world api-module asks for{}", interface(HANDLER.0), instead(found.as_deref()))]
    NoHandler {
        /// The module.
        name: String,
        /// The handler of another version that it exports.
        found: Option<String>,
    },
    /// Its types are not those of the contract.
    #[error(
        "module {name}: does not fit the contract, version {CONTRACT_VERSION}: {reason}; build it against this host's wit/"
    )]
    Types {
        /// The module.
        name: String,
        /// What does not fit.
        reason: String,
    },
}

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
        if let Some(code_cache) = &engine.code_cache {
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
                LoadError::Memory { name, limit: engine.limits.memory, reason }
            } else if reason.contains("exceeds the") && reason.contains("limit") {
                LoadError::TooMuch { name, reason }
            } else {
                LoadError::Invalid { name, reason }
            }
        })?;
        let offences = audit::imports(&component);
        if !offences.is_empty() {
            return Err(LoadError::Imports { name: name(), offences });
        }
        let imports: Vec<_> = imports(&component);
        let lacking = engine.grants.lack(&imports);
        if !lacking.is_empty() {
            let granted = engine.grants.clone();
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
            has_start: has_start(&encoded),
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
        &self.0.engine.limits
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

    /// Some of its code runs before it is asked.
    pub(super) fn has_start(&self) -> bool {
        self.0.has_start
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0.tally
    }
}

fn imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    imports.imports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}

/// The full names of interfaces, for a message.
fn interfaces(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| interface(name)).collect();
    names.join(", ")
}

/// What to do about a component that asks for too much.
fn advice(reason: &str) -> &'static str {
    if reason.contains("table") { "; raise limits.table in the settings" } else { "" }
}

/// Whether any core module in a component, however deep, has a function that
/// is called when it is instantiated.
fn has_start(component: &[u8]) -> bool {
    Parser::new(0)
        .parse_all(component)
        .any(|part| matches!(part, Ok(Payload::StartSection { .. }) | Err(_)))
}

fn label(name: &str, digest: Digest) -> HeaderValue {
    HeaderValue::try_from(format!("{name}@{}", digest.short()))
        .expect("a module's name is what a header can have")
}

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256: 64 hexadecimal digits, as `sha256sum` prints them")]
pub struct DigestError(String);

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut digest = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return Err(DigestError(text.to_owned()));
        }
        for (place, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16)
                .map_err(|_| DigestError(text.to_owned()))?;
        }
        Ok(Self(digest))
    }
}

impl Digest {
    /// The digest of a component's bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first 12 hexadecimal digits, which tell modules apart in practice.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl Display for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Debug for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Debug for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("digest", &self.digest()).finish_non_exhaustive()
    }
}

fn list(offences: &[Offence]) -> String {
    offences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn instead(found: Option<&str>) -> String {
    found.map(|found| format!("; it exports {found}")).unwrap_or_default()
}
