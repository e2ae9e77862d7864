//! The WebAssembly components that are bundled with relayer-rest, built from `guest/`.
//!
//! | item | component |
//! |---|---|
//! | [`DEFAULT_MODULE`], [`MODULE_1_13`] | the relayer's API, in the dialects 0.7 and 1.13 |
//! | [`BUNDLED_EXTENSIONS`] | the extensions, a feature each |

/// The module that serves the API by default, in the dialect 0.7.
pub const DEFAULT_MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module.wasm"));

/// The module that serves the API as version 1.13 of the relayer does.
pub const MODULE_1_13: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module-1.13.wasm"));

/// A bundled extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundledExtension {
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// The interfaces of the contract that it needs.
    pub grants: &'static [&'static str],
}

impl BundledExtension {
    /// Returns the bundled extension with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        BUNDLED_EXTENSIONS.iter().copied().find(|extension| extension.name == name)
    }
}

/// The extensions that this build bundles.
pub const BUNDLED_EXTENSIONS: &[BundledExtension] = &[
    #[cfg(feature = "dashboard")]
    BundledExtension {
        name: "dashboard",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/dashboard.wasm")),
        grants: &["version", "chains", "state", "telemetry"],
    },
    #[cfg(feature = "health")]
    BundledExtension {
        name: "health",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/health.wasm")),
        grants: &["chains", "state", "snapshot", "telemetry", "query"],
    },
    #[cfg(feature = "metrics")]
    BundledExtension {
        name: "metrics",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/metrics.wasm")),
        grants: &["version", "chains", "state", "snapshot", "telemetry"],
    },
];

#[cfg(test)]
mod tests {
    use super::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, MODULE_1_13};
    use std::collections::BTreeSet;
    use wit_component::DecodedWasm;

    /// Returns the interfaces of the contract that a component imports, without the one
    /// that only has types.
    fn imports(component: &[u8]) -> BTreeSet<String> {
        let DecodedWasm::Component(resolve, world) = wit_component::decode(component).unwrap()
        else {
            panic!("a WIT package, not a component");
        };
        let imports = resolve.worlds[world].imports.keys().map(|key| resolve.name_world_key(key));
        let interface = |name: String| {
            let name = name.strip_prefix("relayer:rest/").and_then(|name| name.split_once('@'));
            name.expect("an interface of the contract").0.to_owned()
        };
        // These two need no grant.
        let is_granted = |name: &String| !["types", "failure"].contains(&&**name);
        imports.map(interface).filter(is_granted).collect()
    }

    #[test]
    fn every_component_is_valid() {
        let extensions = BUNDLED_EXTENSIONS.iter().map(|extension| extension.component);
        for component in [DEFAULT_MODULE, MODULE_1_13].into_iter().chain(extensions) {
            wasmparser::Validator::new().validate_all(component).unwrap();
        }
    }

    #[test]
    fn the_imports_of_extensions_match_their_grants() {
        for extension in BUNDLED_EXTENSIONS {
            let grants = extension.grants.iter().map(|&grant| grant.to_owned());
            assert_eq!(imports(extension.component), grants.collect(), "{}", extension.name);
        }
    }
}
