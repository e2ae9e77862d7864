//! The sections `[[extension]]`.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::module::{API, BundledExtension, Digest, Grants, HeaderGrants, Limits};
use crate::registry::{FailurePolicy, MountPath};

/// A module that serves requests below a path of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionConfig {
    /// Its name, of at most 64 small letters, digits and `-`. No two have the
    /// same.
    pub name: ExtensionName,
    /// Where it is. Default: `/ext/NAME`.
    pub mount: Option<MountPath>,
    /// The component, relative to the folder of the configuration file. Default:
    /// the extension of this name that comes with `relayer-rest`.
    pub module: Option<PathBuf>,
    /// The SHA-256 of the component, in hexadecimal digits. Another one is not
    /// loaded, nor taken when the file changes; what is swapped in by hand is
    /// another matter. Default: any.
    pub sha256: Option<Digest>,
    /// The interfaces of the contract that it may import: `version`, `chains`,
    /// `state`, `snapshot`, `request`, `query`, `mount` and `log`. Default: none;
    /// of an extension that comes with `relayer-rest`, those that it needs.
    pub grants: Option<Grants>,
    /// Whether it may import WASI, too, of which nothing leads outside. Default:
    /// it may not.
    #[serde(default)]
    pub wasi: bool,
    /// The response headers beyond its mount that it may set, such as
    /// `service-worker-allowed`, or `set-cookie` for cookies of any path and
    /// domain. Default: none.
    #[serde(default)]
    pub headers: HeaderGrants,
    /// The section `[extension.limits]`: what the module may use.
    #[serde(default)]
    pub limits: Limits,
    /// The section `[extension.budget]`: the failures that it may have. One
    /// that has more is taken out of service, until it answers again.
    #[serde(default)]
    pub budget: FailurePolicy,
}

/// The name of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
            Err(format!("the name {API} is that of the module that serves the API"))
        } else if (1..=64).contains(&name.len()) && name.bytes().all(is_plain) {
            Ok(Self(name))
        } else {
            Err(format!("{name:?} is not a name of 1 to 64 small letters, digits and -"))
        }
    }
}

impl ExtensionName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExtensionConfig {
    /// What it may import.
    #[must_use]
    pub fn granted(&self) -> Grants {
        self.grants.clone().unwrap_or_else(|| match self.bundled() {
            Some(included) => included.granted(),
            None => Grants::none(),
        })
    }

    /// The extension of its name that comes along, where it names no file.
    #[must_use]
    pub fn bundled(&self) -> Option<BundledExtension> {
        if self.module.is_some() { None } else { BundledExtension::of(self.name.as_str()) }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> MountPath {
        self.mount.clone().unwrap_or_else(|| MountPath::of_extension(self.name.as_str()))
    }
}
