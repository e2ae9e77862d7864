//! The reasons why a component cannot be used, each with a remedy.

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
        /// The reason.
        source: io::Error,
    },
    /// The input is not WebAssembly.
    #[error(
        "module {name}: is not WebAssembly: a component starts with the bytes 00 61 73 6d 0d 00 01 00"
    )]
    NotWasm {
        /// The module.
        name: String,
    },
    /// The input is a core module without a note of the contract.
    #[error(
        "module {name}: is a core module, not a component, and has no note of the contract; build it with relayer-rest-sdk or wit-bindgen, or make a component of it with `wasm-tools component new`"
    )]
    CoreModule {
        /// The module.
        name: String,
    },
    /// The input is a core module that cannot be made into a component.
    #[error(
        "module {name}: no component can be made of this core module: {reason}; build it against this host's wit/"
    )]
    Encode {
        /// The module.
        name: String,
        /// The problem.
        reason: String,
    },
    /// The input is not a valid component.
    #[error("module {name}: is not a valid component: {reason}")]
    Invalid {
        /// The module.
        name: String,
        /// The compiler's message.
        reason: String,
    },
    /// The compiler did not finish.
    #[error(
        "module {name}: cannot be compiled: the compiler, which may have {limit} of memory, gave up: {reason}; raise swap.memory where the module is right to need more"
    )]
    Compiler {
        /// The module.
        name: String,
        /// The known details of its end.
        reason: String,
        /// The maximum memory of the compiler.
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
        /// The reason.
        source: io::Error,
    },
    /// Instances need more initial memory than the limit allows.
    #[error(
        "module {name}: wants more memory than the limit of {limit}: {reason}; raise limits.memory in the settings"
    )]
    Memory {
        /// The module.
        name: String,
        /// The limit.
        limit: ByteSize,
        /// The memory that it needs.
        reason: String,
    },
    /// The component exceeds another bound of modules.
    #[error("module {name}: asks for more than a module may have: {reason}{}", advice(reason))]
    TooMuch {
        /// The module.
        name: String,
        /// The amount that it needs, and the bound.
        reason: String,
    },
    /// The component imports items that are not in the contract.
    #[error(
        "module {name}: imports what a module cannot have: {}; it can import {}{}",
        list(offences),
        import_check::allowed(),
        wasi(offences)
    )]
    Imports {
        /// The module.
        name: String,
        /// The forbidden imports.
        offences: Vec<ForbiddenImport>,
    },
    /// The component imports interfaces that its mount is not granted.
    #[error(
        "module {name}: imports {}, which it is not granted (granted: {granted}); where it may, write {} into its [[extension]]",
        interfaces(lacking), granted.and(lacking).as_setting()
    )]
    NotGranted {
        /// The module.
        name: String,
        /// The names of the interfaces that it may not import.
        lacking: Vec<&'static str>,
        /// The interfaces that its mount is granted.
        granted: Grants,
    },
    /// The component does not have the expected digest.
    #[error(
        "module {name}: has the SHA-256 {digest}, not {wanted} as was asked for; give the file that was meant, or the digest of this one"
    )]
    Digest {
        /// The module.
        name: String,
        /// Its digest.
        digest: Digest,
        /// The expected digest.
        wanted: Digest,
    },
    /// The component does not export the handler.
    #[error("module {name}: does not export {}, which the world api-module asks for{}", interface(HANDLER.0), instead(found.as_deref()))]
    NoHandler {
        /// The module.
        name: String,
        /// The handler of another version that it exports.
        found: Option<String>,
    },
    /// The initial image of the component's memory cannot be written to a file in memory.
    #[error(
        "module {name}: cannot write the image of its memory: {reason}; raise the limits of the process on files (ulimit -f, ulimit -n; LimitFSIZE and LimitNOFILE of systemd)"
    )]
    Image {
        /// The module.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The component's types do not match the contract.
    #[error(
        "module {name}: does not fit the contract, version {CONTRACT_VERSION}: {reason}; build it against this host's wit/"
    )]
    Types {
        /// The module.
        name: String,
        /// The mismatch.
        reason: String,
    },
}

/// Returns the full names of interfaces, for a message.
fn interfaces(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| interface(name)).collect();
    names.join(", ")
}

/// Returns a remedy for a component that exceeds a bound.
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

/// Returns remedies for imports that are not in the contract.
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
