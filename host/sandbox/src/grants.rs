//! The interfaces of the contract that the modules of a mount may import.

use std::fmt::{self, Display, Formatter};

use relayer_rest_modules::BundledExtension;
use serde::{Deserialize, Serialize};

use super::contract::{FAILURE, IMPORTS, TYPES, interface};

/// Interfaces of the contract, by their names in it: `version`, `chains`,
/// `state`, `snapshot`, `telemetry`, `commands`, `request`, `query`, `mount` and `log`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Vec<String>")]
pub struct Grants(Vec<&'static str>);

/// A name that is not an interface of the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown interface {0:?}; expected one of {all}", all = Grants::all())]
pub struct UnknownGrant(String);

impl Grants {
    /// Grants all interfaces of the contract.
    #[must_use]
    pub fn all() -> Self {
        Self(grantable().collect())
    }

    /// Grants nothing: a module sees only the method and the path of its request.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Grants these interfaces, by name.
    pub fn new<T: AsRef<str>>(names: &[T]) -> Result<Self, UnknownGrant> {
        let unknown = |name: &str| !grantable().any(|allowed| allowed == name);
        if let Some(name) = names.iter().map(AsRef::as_ref).find(|name| unknown(name)) {
            return Err(UnknownGrant(name.to_owned()));
        }
        // In the contract's order, and each once.
        let is_named = |allowed: &&str| names.iter().any(|name| name.as_ref() == *allowed);
        Ok(Self(grantable().filter(is_named).collect()))
    }

    /// Returns the grants that a module with these imports needs.
    #[must_use]
    pub fn needed(imports: &[String]) -> Self {
        Self(Self::none().lack(imports))
    }

    /// Returns whether all of these interfaces are granted.
    #[must_use]
    pub fn includes(&self, others: &Self) -> bool {
        others.0.iter().all(|name| self.0.contains(name))
    }

    /// Returns the names of the interfaces in these imports, such as `state` for
    /// `relayer:rest/state@0.1.0`, that are not granted.
    pub(super) fn lack(&self, imports: &[String]) -> Vec<&'static str> {
        let is_imported = |name: &&str| {
            let of_a_version = |import: &String| {
                let path = import.split_once('@').map_or(&**import, |(path, _)| path);
                interface(name).split_once('@').is_some_and(|(allowed, _)| allowed == path)
            };
            imports.iter().any(of_a_version)
        };
        grantable().filter(|name| !self.0.contains(name)).filter(is_imported).collect()
    }

    /// Returns these grants and more.
    pub(super) fn and(&self, more: &[&'static str]) -> Self {
        Self(grantable().filter(|name| self.0.contains(name) || more.contains(name)).collect())
    }

    /// Returns the grants as the settings contain them.
    #[must_use]
    pub fn as_setting(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|name| format!("\"{name}\"")).collect();
        format!("grants = [{}]", names.join(", "))
    }
}

impl From<&BundledExtension> for Grants {
    /// Returns the interfaces that a bundled extension may import.
    fn from(extension: &BundledExtension) -> Self {
        Self::none().and(extension.grants)
    }
}

/// Returns all interfaces but the two without access to anything.
fn grantable() -> impl Iterator<Item = &'static str> {
    IMPORTS.into_iter().map(|(name, _)| name).filter(|name| ![TYPES, FAILURE].contains(name))
}

impl TryFrom<Vec<String>> for Grants {
    type Error = UnknownGrant;

    fn try_from(names: Vec<String>) -> Result<Self, UnknownGrant> {
        Self::new(&names)
    }
}

impl Display for Grants {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("nothing") } else { f.write_str(&self.0.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::Grants;

    #[test]
    fn grants_are_named_and_in_order() {
        let grants = Grants::new(&["log", "chains", "log"]).unwrap();
        assert_eq!(grants.to_string(), "chains, log");
        assert_eq!(grants.as_setting(), r#"grants = ["chains", "log"]"#);
        assert_eq!(grants.and(&["state"]).to_string(), "chains, state, log");
        assert_eq!(Grants::none().to_string(), "nothing");
        let unknown = Grants::new(&["types"]).unwrap_err().to_string();
        assert_eq!(
            unknown,
            r#"unknown interface "types"; expected one of version, chains, state, snapshot, telemetry, commands, request, query, mount, log"#
        );
    }

    #[test]
    fn imports_without_a_grant_are_found_in_any_version() {
        let imports = ["relayer:rest/types@0.1.0", "relayer:rest/state@0.1.7"].map(str::to_owned);
        assert_eq!(Grants::new(&["chains"]).unwrap().lack(&imports), ["state"]);
        assert_eq!(Grants::none().lack(&imports), ["state"]);
        assert!(Grants::all().lack(&imports).is_empty());
    }
}
