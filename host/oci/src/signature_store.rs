//! The signatures in a registry, at the places to which cosign writes them: a manifest whose
//! tag is made from the signed digest, or manifests that refer to it.
//!
//! Anyone who may write to the repository can add signatures. One that cannot be read does not hide
//! the others, unless the registry does not respond.

use relayer_rest_common::Digest;

use super::error::RegistryError;
use super::manifest::{INDEX, Index, MANIFEST, MAX_MANIFEST, Manifest};
use super::reference::SHA256;
use super::signature::Signature;
use super::transport::Transport;

/// The media type of a payload of simple signing, and the annotation with its signature.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// The media type of bundles of Sigstore, up to their version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

/// The maximum size of a payload or a bundle, in bytes.
const MAX_SIGNED: u64 = 256 << 10;

/// The maximum number of signatures of each form that are read.
const MAX_SIGNATURES: usize = 32;

/// Returns the signatures of a manifest, which are not verified yet.
pub(crate) fn fetch(
    transport: &Transport,
    manifest: Digest,
) -> Result<Vec<Signature>, RegistryError> {
    let mut signatures = simple(transport, manifest)?;
    for bundle in bundles(transport, manifest)? {
        signatures.extend(Signature::in_bundle(&bundle));
    }
    Ok(signatures)
}

/// Returns the signatures in the manifest with the tag `sha256-DIGEST.sig`.
fn simple(transport: &Transport, manifest: Digest) -> Result<Vec<Signature>, RegistryError> {
    let path = format!("manifests/sha256-{manifest}.sig");
    let Some(bytes) = transport.get(&path, MANIFEST, MAX_MANIFEST)? else {
        return Ok(Vec::new());
    };
    let manifest = if_readable(Manifest::parse(&bytes))?;
    let layers = manifest.into_iter().flat_map(|manifest| manifest.layers);
    let layers = layers.filter(|layer| layer.media_type == SIMPLE_SIGNING).take(MAX_SIGNATURES);
    let mut signatures = Vec::new();
    for layer in layers {
        let Some(signature) = layer.annotation(ANNOTATION) else { continue };
        let payload = if_readable(blob(transport, layer.digest))?;
        signatures.extend(payload.and_then(|payload| Signature::simple(payload, signature)));
    }
    Ok(signatures)
}

/// Returns the bundles of Sigstore that refer to a manifest.
fn bundles(transport: &Transport, manifest: Digest) -> Result<Vec<Vec<u8>>, RegistryError> {
    let path = format!("referrers/{SHA256}{manifest}");
    let listed = match transport.get(&path, INDEX, MAX_MANIFEST) {
        // Registries without this request have a list under a tag.
        Ok(None) | Err(RegistryError::Protocol { .. }) => {
            let path = format!("manifests/sha256-{manifest}");
            transport.get(&path, INDEX, MAX_MANIFEST)?
        }
        listed => listed?,
    };
    let Some(index) = listed.and_then(|bytes| serde_json::from_slice::<Index>(&bytes).ok()) else {
        return Ok(Vec::new());
    };
    let is_bundle =
        |kind: &Option<String>| kind.as_deref().is_some_and(|kind| kind.starts_with(BUNDLE));
    let entries = index.manifests.into_iter().filter(|entry| is_bundle(&entry.artifact_type));
    let mut bundles = Vec::new();
    for entry in entries.take(MAX_SIGNATURES) {
        bundles.extend(if_readable(bundle(transport, entry.digest))?);
    }
    Ok(bundles)
}

/// Returns the bundle with this manifest.
fn bundle(transport: &Transport, manifest: Digest) -> Result<Vec<u8>, RegistryError> {
    const WHAT: &str = "manifest of a signature";
    let bytes = transport.get(&format!("manifests/{SHA256}{manifest}"), MANIFEST, MAX_MANIFEST)?;
    let bytes = bytes.ok_or_else(|| transport.not_found(WHAT))?;
    verify(WHAT, manifest, &bytes)?;
    let layer = Manifest::parse(&bytes)?.layers.into_iter().next();
    blob(transport, layer.ok_or_else(|| transport.not_found("signature"))?.digest)
}

/// Returns a signature, or `None` if it cannot be read.
fn if_readable<T>(signature: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match signature {
        Ok(signature) => Ok(Some(signature)),
        Err(error @ RegistryError::Unreachable { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

fn blob(transport: &Transport, digest: Digest) -> Result<Vec<u8>, RegistryError> {
    let bytes = transport.get(&format!("blobs/{SHA256}{digest}"), "*/*", MAX_SIGNED)?;
    let bytes = bytes.ok_or_else(|| transport.not_found("signature"))?;
    verify("signature", digest, &bytes)?;
    Ok(bytes)
}

/// Checks that bytes have a digest.
pub(crate) fn verify(
    what: &'static str,
    expected: Digest,
    bytes: &[u8],
) -> Result<(), RegistryError> {
    let found = Digest::new(bytes);
    if found == expected {
        return Ok(());
    }
    Err(RegistryError::Mismatch { what, expected, found })
}
