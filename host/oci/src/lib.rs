//! Modules in OCI registries, in the layout of `wkg`: a manifest with one WebAssembly layer.
//!
//! A component is pulled by the digest of its manifest, or by a tag whose manifest a known
//! key signed. Every byte is verified against a digest, and kept in a folder, so that a
//! module that was pulled once needs no registry.
//!
//! | file | job |
//! |---|---|
//! | `reference.rs` | the name of a module in a registry |
//! | `settings.rs` | the section `[registries]` |
//! | `error.rs` | the reasons why a module cannot be pulled or pushed |
//! | `registries.rs` | pulls, pushes and describes modules |
//! | `disabled.rs` | takes the place of `registries.rs` without the client |
//! | `manifest.rs` | manifests of modules |
//! | `signature.rs` | keys, and the signatures of manifests |
//! | `signature_store.rs` | the signatures in a registry |
//! | `cache.rs` | the folder of pulled modules |
//! | `transport.rs` | requests to a registry, with authentication |
//! | `challenge.rs` | the authentication that a registry asks for |
//! | `credentials.rs` | the credentials that Docker stores |

mod error;
mod reference;
mod settings;

#[cfg(feature = "client")]
mod cache;
#[cfg(feature = "client")]
mod challenge;
#[cfg(feature = "client")]
mod credentials;
#[cfg(not(feature = "client"))]
mod disabled;
#[cfg(feature = "client")]
mod manifest;
#[cfg(feature = "client")]
mod registries;
#[cfg(feature = "client")]
mod signature;
#[cfg(feature = "client")]
mod signature_store;
#[cfg(feature = "client")]
mod transport;

#[cfg(not(feature = "client"))]
pub use disabled::Registries;
pub use error::RegistryError;
#[cfg(feature = "client")]
pub use manifest::World;
pub use reference::{Reference, ReferenceError, SCHEME, is_reference};
#[cfg(feature = "client")]
pub use registries::{Description, Registries, SignatureStatus};
pub use settings::{Pulled, RegistrySettings, SignaturePolicy};
#[cfg(feature = "client")]
pub use transport::tls;
