//! The reasons why a component cannot be used, each with a remedy.

use std::io;
use std::path::PathBuf;

use bytesize::ByteSize;
use relayer_rest_common::{Digest, files};

use super::contract::{CONTRACT_VERSION, HANDLER, interface};
use super::grants::Grants;
use super::import_check::{self, ForbiddenImport};

/// A component that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("module {}: cannot be read: {source}; {}", file.display(), files::remedy(file, source))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The input is not WebAssembly.
    #[error(
        "module {name}: not WebAssembly; a component starts with the bytes 00 61 73 6d 0d 00 01 00"
    )]
    NotWasm {
        /// The module.
        name: String,
    },
    /// The input is a core module without a note of the contract.
    #[error(
        "module {name}: a core module without metadata of the contract, not a component; build it with relayer-rest-sdk or wit-bindgen, or convert it with `wasm-tools component new`"
    )]
    CoreModule {
        /// The module.
        name: String,
    },
    /// The input is a core module that cannot be made into a component.
    #[error(
        "module {name}: this core module cannot be converted to a component: {reason}; build it against this host's wit/"
    )]
    Encode {
        /// The module.
        name: String,
        /// The problem.
        reason: String,
    },
    /// The input is not a valid component.
    #[error("module {name}: not a valid component: {reason}; rebuild it, or copy it again")]
    Invalid {
        /// The module.
        name: String,
        /// The compiler's message.
        reason: String,
    },
    /// The compiler did not finish.
    #[error(
        "module {name}: cannot be compiled: the compiler failed with at most {limit} of memory: {reason}; raise swap.memory if the module needs more"
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
        "module {name}: cannot be compiled: cannot start the compiler {}: {source}; check that this program can be executed (/proc/self/exe needs a mounted /proc) and that this user may start more processes (ulimit -u)",
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
        "module {name}: needs more memory than the limit of {limit}: {reason}; raise limits.memory in the settings"
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
    #[error("module {name}: exceeds a limit of modules: {reason}{}", advice(reason))]
    TooMuch {
        /// The module.
        name: String,
        /// The amount that it needs, and the bound.
        reason: String,
    },
    /// The component imports items that are not in the contract.
    #[error(
        "module {name}: forbidden imports{}: {}; allowed are {}",
        wasi(forbidden),
        list(forbidden),
        import_check::allowed()
    )]
    Imports {
        /// The module.
        name: String,
        /// The forbidden imports.
        forbidden: Vec<ForbiddenImport>,
    },
    /// The component imports interfaces that its mount is not granted.
    #[error(
        "module {name}: imports without a grant: {} (granted: {granted}); to grant them, set {} in its [[extension]]",
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
        "module {name}: SHA-256 mismatch: expected {wanted}, found {digest}; give the expected file, or the digest of this one"
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
    #[error("module {name}: does not export {}, which the world api-module requires, or {}0.2{}; build it against this host's wit/, or for wasi:http 0.2", interface(HANDLER.0), import_check::WASI_HTTP_HANDLER, instead(found.as_deref()))]
    NoHandler {
        /// The module.
        name: String,
        /// The handler of another version that it exports.
        found: Option<String>,
    },
    /// The component exports the handler of `wasi:http` 0.3.
    #[error(
        "module {name}: exports {export}, but the host has wasi:http 0.2; build it for wasi:http/incoming-handler@0.2"
    )]
    AsyncHandler {
        /// The module.
        name: String,
        /// The full name of the handler.
        export: String,
    },
    /// The component's OpenAPI document cannot be used.
    #[error(
        "module {name}: its OpenAPI document {reason}; correct the document, or remove the section openapi"
    )]
    OpenApi {
        /// The module.
        name: String,
        /// The problem.
        reason: String,
    },
    /// The initial image of the component's memory cannot be written to a file in memory.
    #[error(
        "module {name}: cannot write the image of its memory: {reason}; raise the limits of the process on files (ulimit -f, ulimit -n; systemd: LimitFSIZE, LimitNOFILE)"
    )]
    Image {
        /// The module.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The component's types do not match the contract.
    #[error(
        "module {name}: does not match the contract, version {CONTRACT_VERSION}: {reason}; build it against this host's wit/"
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
        "; this limit is fixed: link the module into fewer parts"
    }
}

fn list(forbidden: &[ForbiddenImport]) -> String {
    forbidden.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn instead(found: Option<&str>) -> String {
    found.map(|found| format!(", but {found}")).unwrap_or_default()
}

/// Returns remedies for imports that are not in the contract.
fn wasi(forbidden: &[ForbiddenImport]) -> String {
    let is_wasi = |import: &ForbiddenImport| matches!(import, ForbiddenImport::Wasi { .. });
    let is_later = |import: &ForbiddenImport| matches!(import, ForbiddenImport::Unknown { import } if is_later_wasi(import));
    let mut advice = String::new();
    if forbidden.iter().any(is_later) {
        advice += " (the host has WASI 0.2: build it for that version)";
    }
    if forbidden.iter().any(is_wasi) {
        advice += " (to allow WASI, set wasi = true in its [[extension]], or in [module])";
    }
    advice
}

/// Returns whether an import is of a later version of WASI, judging by its name.
fn is_later_wasi(import: &str) -> bool {
    let version = import.split_once('@').map(|(_, version)| version);
    import.starts_with("wasi:") && version.is_some_and(|version| version.starts_with("0.3."))
}
