//! The section `[registries]` of the settings.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::limit::any;
use relayer_rest_common::{LimitError, limits};

use super::reference::{Reference, is_registry};

limits! {
    /// The registries of modules, and the signatures that modules must have.
    pub struct RegistrySettings {
        timeout: Duration = "\"30s\"", "1s" to "1h", "Time for a request to a registry, with its body";
        cache_size: ByteSize = "\"1GiB\"", "1MiB" to "1TiB", "Size of the folder of pulled modules, above which the least recently used ones are removed";
    }
    with {
        /// The folder for pulled modules. Default: `relayer-rest/modules` in the cache of the
        /// user.
        cache: Option<PathBuf>, any;
        /// The configuration of Docker with the credentials for registries. Default:
        /// `config.json` in `$DOCKER_CONFIG` or `~/.docker`.
        docker_config: Option<PathBuf>, any;
        /// The registries that are reached over HTTP instead of HTTPS, such as
        /// `registry.internal:5000`, besides those at loopback addresses. Default: none.
        insecure: Vec<String>, check_registries;
        /// The signers of modules: names, and the files of their public keys, in PEM. Default:
        /// none.
        signers: BTreeMap<String, PathBuf>, check_signers;
        /// Whether modules must have a signature of one of the signers, except bundled ones.
        /// Default: false.
        require_signature: bool, any;
    }
}

/// The signature that a module must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// None.
    Optional,
    /// The signature of any of the signers.
    AnySigner,
    /// The signature of this signer.
    Signer(String),
}

/// A module that was pulled.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// The reference, with the digest of the manifest.
    pub reference: Reference,
    /// The component.
    pub component: Vec<u8>,
    /// The signer whose signature was verified.
    pub signer: Option<String>,
}

impl RegistrySettings {
    /// Returns whether a registry is reached over HTTP.
    #[must_use]
    pub fn is_insecure(&self, registry: &str) -> bool {
        let host = match registry.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => registry,
        };
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost"
            || address.is_ok_and(|address| address.is_loopback())
            || self.insecure.iter().any(|insecure| insecure == registry)
    }

    /// Returns the policy for a module of a section whose settings may name a signer.
    #[must_use]
    pub fn policy(&self, signer: Option<&str>) -> SignaturePolicy {
        match signer {
            Some(signer) => SignaturePolicy::Signer(signer.to_owned()),
            None if self.require_signature => SignaturePolicy::AnySigner,
            None => SignaturePolicy::Optional,
        }
    }
}

fn check_registries(registries: &[String]) -> Result<(), LimitError> {
    let Some(other) = registries.iter().find(|registry| !is_registry(registry)) else {
        return Ok(());
    };
    let range = "hosts, with a port or without";
    Err(LimitError { key: "insecure", value: format!("{other:?}"), range })
}

fn check_signers(signers: &BTreeMap<String, PathBuf>) -> Result<(), LimitError> {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@');
    let is_name = |name: &str| (1..=64).contains(&name.len()) && name.bytes().all(is_plain);
    let Some(other) = signers.keys().find(|name| !is_name(name)) else { return Ok(()) };
    let range = "names of 1 to 64 letters, digits, '-', '_', '.' and '@'";
    Err(LimitError { key: "signers", value: format!("{other:?}"), range })
}

#[cfg(test)]
mod tests {
    use super::{RegistrySettings, SignaturePolicy};

    #[test]
    fn only_loopback_and_declared_registries_are_insecure() {
        let insecure = vec!["registry.internal:5000".to_owned()];
        let settings = RegistrySettings { insecure, ..RegistrySettings::default() };
        for registry in
            ["localhost", "localhost:5000", "127.0.0.2:1", "[::1]:5000", "registry.internal:5000"]
        {
            assert!(settings.is_insecure(registry), "{registry}");
        }
        for registry in ["registry.internal", "ghcr.io", "localhost.example", "10.0.0.1", "[::2]"] {
            assert!(!settings.is_insecure(registry), "{registry}");
        }
    }

    #[test]
    fn entries_are_checked() {
        let check = |text: &str| toml::from_str::<RegistrySettings>(text).unwrap().check();
        assert_eq!(check("insecure = ['a:5000']\n[signers]\nci-1 = 'a.pub'"), Ok(()));
        let error = check("insecure = ['http://a']").unwrap_err().to_string();
        assert_eq!(
            error,
            "insecure: \"http://a\" is out of range; expected hosts, with a port or without"
        );
        assert_eq!(check("[signers]\n'a b' = 'a.pub'").unwrap_err().key, "signers");
        assert_eq!(check("timeout = '0s'").unwrap_err().key, "timeout");
    }

    #[test]
    fn the_policy_is_the_one_of_the_module_first() {
        let required = RegistrySettings { require_signature: true, ..Default::default() };
        let signer = || SignaturePolicy::Signer("ci".to_owned());
        assert_eq!(required.policy(Some("ci")), signer());
        assert_eq!(required.policy(None), SignaturePolicy::AnySigner);
        assert_eq!(RegistrySettings::default().policy(Some("ci")), signer());
        assert_eq!(RegistrySettings::default().policy(None), SignaturePolicy::Optional);
    }
}
