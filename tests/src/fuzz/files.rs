//! Files and manifests that anyone may have written: capsules, declared changes, and modules in
//! registries.

use relayer_rest_host::module::{Capsule, CapsuleError, Digest};
use relayer_rest_host::oci::{Reference, Registries, RegistrySettings, SignaturePolicy};
use relayer_rest_host::registry::ExpectedChanges;

use crate::folder::Folder;
use crate::oci_registry::OciRegistry;

/// The maximum size of a component that is pulled, in bytes.
const MAX_COMPONENT: u64 = 1 << 20;

/// Checks a message, which must be one line.
fn check_message(message: &str) {
    assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
}

/// Parses a capsule. Its text must be the same after it is parsed again.
pub fn capsule(data: &[u8]) {
    let capsule = match Capsule::parse(data) {
        Ok(capsule) => capsule,
        Err(error) => return check_message(&error.to_string()),
    };
    check_message(&capsule.summary());
    match capsule.to_json() {
        Ok(json) => assert_eq!(Capsule::parse(&json).unwrap().to_json().unwrap(), json),
        Err(error) => assert!(matches!(error, CapsuleError::TooLarge), "{error}"),
    }
}

/// Parses declared changes.
pub fn changes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<ExpectedChanges>() {
        Ok(changes) => assert_eq!(changes.as_str(), text),
        Err(error) => check_message(&error.to_string()),
    }
}

/// Pulls a module with this manifest. Nothing has the digest of a component in it.
pub fn manifest(data: &[u8]) {
    let registry = OciRegistry::start();
    let reference: Reference = registry.add_manifest_bytes("a/b", "1", data);
    assert_eq!(reference.digest(), Some(Digest::new(data)));
    let folder = Folder::new();
    let cache = Some(folder.join("cache"));
    let registries = Registries::new(&RegistrySettings { cache, ..RegistrySettings::default() });
    let pulled = registries.pull(&reference, &SignaturePolicy::Optional, MAX_COMPONENT);
    check_message(&pulled.unwrap_err().to_string());
}
