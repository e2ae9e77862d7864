//! The reasons why a module cannot be pulled or pushed, each with a remedy.

use std::io;
use std::path::PathBuf;

use relayer_rest_common::Digest;

/// The reason why a module cannot be pulled, pushed or described. Messages name the registry,
/// not the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// This program has no client of registries.
    #[error("this program is built without the feature registries; give a file")]
    Disabled,
    /// The registry does not respond, or not now.
    #[error("registry {registry}: no response: {problem}; check the network, or try again later")]
    Unreachable {
        /// The registry.
        registry: String,
        /// The cause.
        problem: String,
    },
    /// The registry does not admit these credentials.
    #[error(
        "registry {registry}: access denied: {problem}; log in with `docker login {registry}`, and check the permissions there"
    )]
    Denied {
        /// The registry.
        registry: String,
        /// The status or the cause.
        problem: String,
    },
    /// The registry does not have the module.
    #[error("registry {registry}: {what} not found; check the repository, and the digest or tag")]
    NotFound {
        /// The registry.
        registry: String,
        /// The part of the module.
        what: &'static str,
    },
    /// The response of the registry does not follow the specification.
    #[error("registry {registry}: {problem}; check that it is an OCI registry")]
    Protocol {
        /// The registry.
        registry: String,
        /// The problem.
        problem: String,
    },
    /// Something has another digest than the manifest or the reference says.
    #[error(
        "{what}: SHA-256 mismatch: expected {expected}, found {found}; do not trust this registry"
    )]
    Mismatch {
        /// The part of the module.
        what: &'static str,
        /// The digest in the reference or the manifest.
        expected: Digest,
        /// The digest of the response.
        found: Digest,
    },
    /// The component is larger than the limit.
    #[error("the component has {size} bytes, more than {limit}; raise swap.size")]
    TooLarge {
        /// The size in the manifest.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The manifest is not one of a module.
    #[error("manifest: {0}; push the module with `relayer-rest push` or `wkg oci push`")]
    Manifest(String),
    /// The reference has a tag only, which can be moved to another module.
    #[error(
        "a tag can be moved to another module; give the digest as @sha256:…, or name the signer"
    )]
    UnpinnedTag,
    /// The module has no signature of the right signer.
    #[error("{0}; sign the module with `cosign sign --key`, or correct the signer")]
    Unsigned(String),
    /// The key of a signer cannot be used.
    #[error("signer {name}: key {}: {problem}; give the public key in PEM, as `cosign public-key` prints it", file.display())]
    Key {
        /// The name of the signer.
        name: String,
        /// The file of the key.
        file: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The settings have no signer of this name.
    #[error("signer {0} is unknown; add its public key to [registries.signers]")]
    UnknownSigner(String),
    /// The credentials cannot be read.
    #[error("credentials {}: {problem}; log in again with `docker login`", file.display())]
    Credentials {
        /// The configuration of Docker.
        file: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The certificates of authorities cannot be read.
    #[error("certificates of authorities: {0}; install ca-certificates, or set SSL_CERT_FILE")]
    Authorities(String),
    /// A module is pushed to a digest.
    #[error("a module is pushed to a tag; give oci://REGISTRY/REPOSITORY:TAG")]
    NoTag,
    /// The folder of pulled modules cannot be used.
    #[error("folder {}: {source}; check its permissions, or set registries.cache", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
