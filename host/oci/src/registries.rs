//! Pulls, pushes and describes modules.

use std::time::SystemTime;

use relayer_rest_common::Digest;
use serde::Serialize;
use tracing::warn;

use super::cache::Cache;
use super::error::RegistryError;
use super::manifest::{Descriptor, MANIFEST, MAX_MANIFEST, Manifest, World};
use super::reference::{Reference, SHA256};
use super::settings::{Pulled, RegistrySettings, SignaturePolicy};
use super::signature::{PublicKey, Signature};
use super::signature_store::{self, verify};
use super::transport::{Access, Content, Transport};

/// The registries of the settings, with the modules that were pulled from them. All methods
/// block while they wait for a registry.
#[derive(Debug, Clone)]
pub struct Registries {
    settings: RegistrySettings,
    cache: Cache,
}

/// A module in a registry.
#[derive(Debug, Clone)]
pub struct Description {
    /// The reference, with the digest of the manifest.
    pub reference: Reference,
    /// The component.
    pub component: Vec<u8>,
    /// Its signatures.
    pub signatures: Vec<SignatureStatus>,
}

/// A signature of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignatureStatus {
    /// The signer whose key verifies it, if one of the settings does.
    pub signer: Option<String>,
}

/// A connection that is made when it is needed.
struct Connection<'a> {
    registries: &'a Registries,
    reference: &'a Reference,
    transport: Option<Transport>,
}

impl Registries {
    /// Creates them from the settings.
    #[must_use]
    pub fn new(settings: &RegistrySettings) -> Self {
        Self { settings: settings.clone(), cache: Cache::new(settings) }
    }

    /// Returns whether a module can probably be used without the registry: its digest is
    /// known, and it was pulled before.
    #[must_use]
    pub fn is_cached(&self, reference: &Reference) -> bool {
        let manifest = reference.digest().and_then(|digest| self.cache.blob(digest, MAX_MANIFEST));
        let manifest = manifest.and_then(|bytes| Manifest::parse(&bytes).ok());
        let component = manifest.as_ref().and_then(|manifest| manifest.component().ok());
        component.is_some_and(|component| self.cache.has(component.digest))
    }

    /// Returns a module of at most this number of bytes, whose signature has been verified if
    /// the policy asks for it. A module that was pulled before needs no registry; for a tag,
    /// it is used if the registry does not respond.
    ///
    /// # Errors
    /// Returns an error if the reference has only a tag and needs no signature, or if the
    /// module cannot be pulled and verified.
    pub fn pull(
        &self,
        reference: &Reference,
        policy: &SignaturePolicy,
        max: u64,
    ) -> Result<Pulled, RegistryError> {
        if reference.digest().is_none() && *policy == SignaturePolicy::Optional {
            return Err(RegistryError::UnpinnedTag);
        }
        let keys = self.keys(policy)?;
        let mut connection = self.connect(reference);
        let digest = match reference.digest() {
            Some(digest) => digest,
            None => self.current_manifest(&mut connection)?,
        };
        let signer = match policy {
            SignaturePolicy::Optional => None,
            policy => Some(self.verified_signer(&mut connection, digest, &keys, policy)?),
        };
        let component = self.component(&mut connection, digest, max)?;
        if reference.digest().is_none() {
            self.cache.keep_tag(reference, digest);
        }
        Ok(Pulled { reference: reference.pinned(digest), component, signer })
    }

    /// Returns the reference with the digest of the manifest, which the registry tells.
    ///
    /// # Errors
    /// Returns an error if the registry does not respond, or does not have the manifest.
    pub fn resolve(&self, reference: &Reference) -> Result<Reference, RegistryError> {
        let known = reference.digest().map(Ok);
        let digest = known.unwrap_or_else(|| self.connect(reference).manifest_of_tag())?;
        Ok(reference.pinned(digest))
    }

    /// Returns a module with its signatures, whichever they are.
    ///
    /// # Errors
    /// Returns an error if the registry does not respond, or if the module cannot be pulled.
    pub fn describe(&self, reference: &Reference, max: u64) -> Result<Description, RegistryError> {
        let reference = self.resolve(reference)?;
        let mut connection = self.connect(&reference);
        let digest = reference.digest().ok_or(RegistryError::UnpinnedTag)?;
        let component = self.component(&mut connection, digest, max)?;
        let keys = self.all_keys()?;
        let signatures = signature_store::fetch(connection.transport()?, digest)?;
        let status = |signature: &Signature| {
            let signer = keys.iter().find(|(_, key)| signature.is_of(digest, key));
            SignatureStatus { signer: signer.map(|(name, _)| (*name).to_owned()) }
        };
        let signatures = signatures.iter().map(status).collect();
        Ok(Description { reference, component, signatures })
    }

    /// Pushes a component under a tag, and returns its reference with the digest.
    ///
    /// # Errors
    /// Returns an error without a tag, or if the registry does not accept the module.
    pub fn push(
        &self,
        reference: &Reference,
        component: &[u8],
        world: &World,
        created: SystemTime,
    ) -> Result<Reference, RegistryError> {
        let Some(tag) = reference.tag().filter(|_| reference.digest().is_none()) else {
            return Err(RegistryError::NoTag);
        };
        let transport = Transport::new(&self.settings, reference, Access::Push)?;
        let (manifest, blobs) = Manifest::new(component, world, created);
        for blob in blobs {
            let digest = format!("{SHA256}{}", blob.descriptor.digest);
            if transport.has(&format!("blobs/{digest}"))? {
                continue;
            }
            let mut url = transport.begin_upload()?;
            url.query_pairs_mut().append_pair("digest", &digest);
            let media_type = "application/octet-stream";
            transport.put(&url, Content { media_type, bytes: &blob.bytes })?;
        }
        let bytes = manifest.to_bytes();
        let url = transport.url(&format!("manifests/{tag}"))?;
        transport.put(&url, Content { media_type: MANIFEST, bytes: &bytes })?;
        Ok(reference.pinned(Digest::new(&bytes)))
    }

    fn connect<'a>(&'a self, reference: &'a Reference) -> Connection<'a> {
        Connection { registries: self, reference, transport: None }
    }

    /// Returns the manifest to which a tag leads now, or led last if the registry does not
    /// respond.
    fn current_manifest(&self, connection: &mut Connection) -> Result<Digest, RegistryError> {
        match connection.manifest_of_tag() {
            Err(error @ RegistryError::Unreachable { .. }) => {
                let reference = connection.reference;
                let Some(digest) = self.cache.tagged(reference) else { return Err(error) };
                warn!(%reference, %digest, %error, "using the module that was pulled last");
                Ok(digest)
            }
            result => result,
        }
    }

    /// Returns the component of a manifest.
    fn component(
        &self,
        connection: &mut Connection,
        digest: Digest,
        max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let manifest = Manifest::parse(&connection.manifest(digest)?)?;
        let Descriptor { digest, size, .. } = *manifest.component()?;
        if size > max {
            return Err(RegistryError::TooLarge { size, limit: max });
        }
        if let Some(component) = self.cache.blob(digest, size) {
            return Ok(component);
        }
        let transport = connection.transport()?;
        let component = transport.get(&format!("blobs/{SHA256}{digest}"), "*/*", size)?;
        let component = component.ok_or_else(|| transport.not_found("component"))?;
        verify("component", digest, &component)?;
        self.cache.keep_blob(digest, &component);
        Ok(component)
    }

    /// Returns the signer of a manifest that the policy asks for.
    fn verified_signer(
        &self,
        connection: &mut Connection,
        manifest: Digest,
        keys: &[(&str, PublicKey)],
        policy: &SignaturePolicy,
    ) -> Result<String, RegistryError> {
        let signer = |signatures: &[Signature]| {
            let is_by = |key| signatures.iter().any(|signature| signature.is_of(manifest, key));
            let (name, _) = keys.iter().find(|(_, key)| is_by(key))?;
            Some((*name).to_owned())
        };
        if let Some(signer) = signer(&self.cache.signatures(manifest)) {
            return Ok(signer);
        }
        let signatures = signature_store::fetch(connection.transport()?, manifest)?;
        let Some(signer) = signer(&signatures) else {
            let by = match policy {
                SignaturePolicy::Signer(name) => format!("signer {name}"),
                _ => "any of the signers".to_owned(),
            };
            return Err(RegistryError::Unsigned(match signatures.len() {
                0 => "the module has no signature".to_owned(),
                count => format!("none of the {count} signatures of the module is by {by}"),
            }));
        };
        self.cache.keep_signatures(manifest, &signatures);
        Ok(signer)
    }

    /// Returns the keys of the signers that the policy admits.
    fn keys(&self, policy: &SignaturePolicy) -> Result<Vec<(&str, PublicKey)>, RegistryError> {
        match policy {
            SignaturePolicy::Optional => Ok(Vec::new()),
            SignaturePolicy::AnySigner => {
                let keys = self.all_keys()?;
                if keys.is_empty() {
                    let problem = "a signature is required, but there are no signers";
                    return Err(RegistryError::Unsigned(problem.to_owned()));
                }
                Ok(keys)
            }
            SignaturePolicy::Signer(name) => {
                let signer = self.settings.signers.get_key_value(name);
                let unknown = || RegistryError::UnknownSigner(name.clone());
                let (name, file) = signer.ok_or_else(unknown)?;
                Ok(vec![(name, PublicKey::read(name, file)?)])
            }
        }
    }

    fn all_keys(&self) -> Result<Vec<(&str, PublicKey)>, RegistryError> {
        let signers = self.settings.signers.iter();
        signers.map(|(name, file)| Ok((name.as_str(), PublicKey::read(name, file)?))).collect()
    }
}

impl Connection<'_> {
    fn transport(&mut self) -> Result<&Transport, RegistryError> {
        if self.transport.is_none() {
            let settings = &self.registries.settings;
            let transport = Transport::new(settings, self.reference, Access::Pull)?;
            self.transport = Some(transport);
        }
        Ok(self.transport.as_ref().expect("it was just made"))
    }

    /// Returns the manifest to which the tag of the reference leads now.
    fn manifest_of_tag(&mut self) -> Result<Digest, RegistryError> {
        let tag = self.reference.tag().unwrap_or_default();
        let bytes = self.fetch_manifest(tag)?;
        let digest = Digest::new(&bytes);
        self.registries.cache.keep_blob(digest, &bytes);
        Ok(digest)
    }

    /// Returns the manifest of a digest.
    fn manifest(&mut self, digest: Digest) -> Result<Vec<u8>, RegistryError> {
        if let Some(bytes) = self.registries.cache.blob(digest, MAX_MANIFEST) {
            return Ok(bytes);
        }
        let bytes = self.fetch_manifest(&format!("{SHA256}{digest}"))?;
        verify("manifest", digest, &bytes)?;
        self.registries.cache.keep_blob(digest, &bytes);
        Ok(bytes)
    }

    fn fetch_manifest(&mut self, name: &str) -> Result<Vec<u8>, RegistryError> {
        let transport = self.transport()?;
        let path = format!("manifests/{name}");
        // An index is accepted for a better error.
        let accept = format!("{MANIFEST}, {}", super::manifest::INDEX);
        let bytes = transport.get(&path, &accept, MAX_MANIFEST)?;
        bytes.ok_or_else(|| transport.not_found("manifest"))
    }
}
