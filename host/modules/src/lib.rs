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
        grants: &["version", "chains", "state"],
    },
    #[cfg(feature = "health")]
    BundledExtension {
        name: "health",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/health.wasm")),
        grants: &["chains", "state", "snapshot", "query"],
    },
    #[cfg(feature = "metrics")]
    BundledExtension {
        name: "metrics",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/metrics.wasm")),
        grants: &["version", "chains", "state", "snapshot"],
    },
];
