//! Why a component cannot be used, and what to do about it.

use std::io;
use std::path::PathBuf;

use bytesize::ByteSize;

use super::contract::{CONTRACT_VERSION, HANDLER, interface};
use super::digest::Digest;
use super::grants::Grants;
use super::import_check::{self, ForbiddenImport};

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
    /// The compiler cannot be run.
    #[error(
        "module {name}: cannot be compiled: the compiler {} cannot be started: {source}; check that this program can be executed (/proc has to be mounted for /proc/self/exe) and that this user may start more processes (ulimit -u)",
        program.display()
    )]
    NoCompiler {
        /// The module.
        name: String,
        /// The compiler.
        program: PathBuf,
        /// Why not.
        source: io::Error,
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
        "module {name}: imports what a module cannot have: {}; it can import {}{}",
        list(offences),
        import_check::allowed(),
        wasi(offences)
    )]
    Imports {
        /// The module.
        name: String,
        /// Each import that is too much.
        offences: Vec<ForbiddenImport>,
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
    /// The initial image of its memory cannot be kept in a file in memory.
    #[error(
        "module {name}: cannot write the image of its memory: {reason}; raise the limits of the process on files (ulimit -f, ulimit -n; LimitFSIZE and LimitNOFILE of systemd)"
    )]
    Image {
        /// The module.
        name: String,
        /// Why not.
        reason: String,
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

/// The full names of interfaces, for a message.
fn interfaces(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| interface(name)).collect();
    names.join(", ")
}

/// What to do about a component that asks for too much.
fn advice(reason: &str) -> &'static str {
    if reason.contains("table index") {
        "; raise limits.table in the settings"
    } else {
        "; that cannot be raised: link it into fewer parts"
    }
}

fn list(offences: &[ForbiddenImport]) -> String {
    offences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn instead(found: Option<&str>) -> String {
    found.map(|found| format!("; it exports {found}")).unwrap_or_default()
}

/// What to do about imports that are not of the contract.
fn wasi(offences: &[ForbiddenImport]) -> String {
    let is_of_wasi = |offence: &ForbiddenImport| matches!(offence, ForbiddenImport::Wasi { .. });
    let is_of_http = |offence: &ForbiddenImport| matches!(offence, ForbiddenImport::Unknown { import } if import.starts_with("wasi:http/"));
    let mut advice = String::new();
    if offences.iter().any(is_of_http) {
        advice += "; nothing can be fetched: build it without wasi:http, as with componentize-js --disable http fetch-event";
    }
    if offences.iter().any(is_of_wasi) {
        advice += "; where it may import WASI, write wasi = true into its [[extension]], or into [module]";
    }
    advice
}
