//! Checks the imports and the exports of a component against the contract. This needs no
//! compilation, so that a rejected component does not cost one.

use std::fmt::{self, Display, Formatter};

use super::contract::{CONTRACT_PACKAGE, CONTRACT_VERSION, HANDLER, IMPORTS, interface};
use super::handler::HandlerName;
use super::wasi_interfaces;
use super::world::World;

/// The interface that a component of `wasi:http` exports, without its version.
pub(super) const WASI_HTTP_HANDLER: &str = "wasi:http/incoming-handler@";

/// An import that a module may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForbiddenImport {
    /// An interface or function that is not in the contract.
    Unknown {
        /// The import's full name.
        import: String,
    },
    /// An interface of WASI, which its mount does not have.
    Wasi {
        /// The import's full name.
        import: String,
    },
    /// An interface of a version of the contract that the host does not have.
    Version {
        /// The import's full name.
        import: String,
    },
    /// A function that an interface of the contract does not have.
    Function {
        /// The interface's full name.
        import: String,
        /// The function.
        function: String,
    },
}

impl Display for ForbiddenImport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wasi { import } => write!(f, "{import} (WASI)"),
            Self::Unknown { import } => write!(f, "{import} (not in the contract)"),
            Self::Version { import } => {
                write!(f, "{import} (the host has version {CONTRACT_VERSION})")
            }
            Self::Function { import, function } => {
                write!(
                    f,
                    "{import} function {function} (not in the host's version {CONTRACT_VERSION})"
                )
            }
        }
    }
}

/// Returns the imports that are neither in the contract nor, if the mount has it, in
/// WASI.
pub(super) fn forbidden(world: &World, has_wasi: bool) -> Vec<ForbiddenImport> {
    let mut forbidden = Vec::new();
    for import in &world.imports {
        let name = &import.name;
        match (known(name), &import.functions) {
            (Ok(known), Some(functions)) => {
                let unknown =
                    functions.iter().filter(|function| !known.contains(&function.as_str()));
                forbidden.extend(unknown.map(|function| ForbiddenImport::Function {
                    import: name.clone(),
                    function: function.clone(),
                }));
            }
            (Ok(_), None) => forbidden.push(ForbiddenImport::Unknown { import: name.clone() }),
            (Err(_), _) if has_wasi && wasi_interfaces::is_defined(name) => {}
            (Err(_), _) if wasi_interfaces::is_defined(name) => {
                forbidden.push(ForbiddenImport::Wasi { import: name.clone() });
            }
            (Err(import), _) => forbidden.push(import),
        }
    }
    forbidden
}

/// Returns the name of the handler that the component exports: the contract's, or else the one
/// of `wasi:http`. Otherwise, returns the name of one that the host does not support.
pub(super) fn handler(world: &World) -> Result<HandlerName, Option<String>> {
    let contract = format!("{CONTRACT_PACKAGE}/{}@", HANDLER.0);
    let find = |prefix: &str, is_supported: fn(&str) -> bool| {
        let is_found = |name: &&String| name.strip_prefix(prefix).is_some_and(is_supported);
        world.exports.iter().find(is_found).cloned()
    };
    if let Some(name) = find(&contract, compatible) {
        return Ok(HandlerName::Contract(name));
    }
    if let Some(name) = find(WASI_HTTP_HANDLER, |version| version.starts_with("0.2.")) {
        return Ok(HandlerName::WasiHttp(name));
    }
    let any = |_: &str| true;
    Err(find(&contract, any).or_else(|| find(WASI_HTTP_HANDLER, any)))
}

/// Returns the functions of an interface of the contract.
fn known(import: &str) -> Result<&'static [&'static str], ForbiddenImport> {
    let unknown = || ForbiddenImport::Unknown { import: import.to_owned() };
    let (path, version) = import.split_once('@').ok_or_else(unknown)?;
    let (package, name) = path.split_once('/').ok_or_else(unknown)?;
    if package != CONTRACT_PACKAGE {
        return Err(unknown());
    }
    if !compatible(version) {
        return Err(ForbiddenImport::Version { import: import.to_owned() });
    }
    IMPORTS
        .iter()
        .find_map(|(interface, functions)| (*interface == name).then_some(*functions))
        .ok_or_else(|| {
            if version == CONTRACT_VERSION {
                unknown()
            } else {
                // A later version may have added it.
                ForbiddenImport::Version { import: import.to_owned() }
            }
        })
}

/// Returns whether a component built for this version of the contract is compatible, by
/// the part of a version that changes with breaking changes in semantic versioning.
pub(super) fn compatible(version: &str) -> bool {
    breaking(version) == breaking(CONTRACT_VERSION)
}

fn breaking(version: &str) -> (&str, Option<&str>) {
    let mut parts = version.split('.');
    match parts.next().unwrap_or_default() {
        "0" => ("0", parts.next()),
        major => (major, None),
    }
}

/// Returns the names of the contract's interfaces, for a message.
pub(super) fn allowed() -> String {
    IMPORTS.map(|(name, _)| interface(name)).join(", ")
}
