//! The sections `[[extension]]`.

use std::str::FromStr;

use relayer_rest_modules::BundledExtension;
use relayer_rest_sandbox::{API, Digest, Grants, HeaderGrants, Limits, RequestHeaders};
use serde::{Deserialize, Serialize};

use crate::registry::{FailurePolicy, ModuleLocation, MountPath};

/// An extension: a module that serves requests below a path of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExtensionConfig {
    /// The name: at most 64 small letters, digits and `-`, unique among the extensions.
    pub name: ExtensionName,
    /// The path of the mount. Default: `/ext/NAME`.
    pub mount: Option<MountPath>,
    /// The component: a file, relative to the folder of the configuration file, or
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`. Default: the bundled extension of this name.
    pub module: Option<ModuleLocation>,
    /// The SHA-256 of the component, in hexadecimal digits. A component with another
    /// digest is not loaded, neither at the start nor when the file changes. Manual swaps
    /// are not checked against it. Default: any.
    pub sha256: Option<Digest>,
    /// The name of the signer of the module and of those that are swapped in, which must come
    /// from a registry then. Default: none.
    pub signer: Option<String>,
    /// Whether the server does not start without the extension. Otherwise, one that cannot be
    /// loaded is disabled, and the server listens before a slow one has been compiled.
    /// Default: false.
    #[serde(default)]
    pub required: bool,
    /// The interfaces of the contract that the extension may import: `version`, `chains`,
    /// `state`, `snapshot`, `telemetry`, `commands`, `request`, `query`, `mount` and
    /// `log`. Default: none, or the required ones for a bundled extension.
    pub grants: Option<Grants>,
    /// Whether the extension may also import WASI, which gives it no access to the
    /// outside. Default: false.
    #[serde(default)]
    pub wasi: bool,
    /// The response headers with effects beyond its mount that the extension may set,
    /// such as `service-worker-allowed`, or `set-cookie` for cookies of any path and
    /// domain. Default: none.
    #[serde(default)]
    pub headers: HeaderGrants,
    /// The request headers that the extension sees if it is a component of `wasi:http`.
    /// Default: all but the ones that the host evaluates.
    #[serde(default)]
    pub request_headers: RequestHeaders,
    /// The section `[extension.limits]`: limits on the extension.
    #[serde(default)]
    pub limits: Limits,
    /// The section `[extension.failure-policy]`: the failures that the extension may have.
    /// Beyond them, its circuit breaker opens until it responds again.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
}

/// The name of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct ExtensionName(String);

impl FromStr for ExtensionName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.to_owned().try_into()
    }
}

impl TryFrom<String> for ExtensionName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name == API {
            Err(format!(
                "name {API:?} is reserved for the module that serves the API; choose another"
            ))
        } else if (1..=64).contains(&name.len()) && name.bytes().all(is_plain) {
            Ok(Self(name))
        } else {
            Err(format!(
                "{name:?} is not a valid name; expected 1 to 64 lowercase letters, digits and -"
            ))
        }
    }
}

impl ExtensionName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExtensionConfig {
    /// Returns the interfaces that the extension may import.
    #[must_use]
    pub fn granted(&self) -> Grants {
        self.grants.clone().unwrap_or_else(|| match self.bundled() {
            Some(bundled) => Grants::from(&bundled),
            None => Grants::none(),
        })
    }

    /// Returns the bundled extension of this name, if no file is given.
    #[must_use]
    pub fn bundled(&self) -> Option<BundledExtension> {
        if self.module.is_some() { None } else { BundledExtension::named(self.name.as_str()) }
    }

    /// Returns the path of the mount.
    #[must_use]
    pub fn path(&self) -> MountPath {
        self.mount.clone().unwrap_or_else(|| MountPath::for_extension(self.name.as_str()))
    }
}
