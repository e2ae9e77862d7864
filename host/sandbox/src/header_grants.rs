//! Response headers with effects beyond the mount of the module that sets them, and the
//! grants of these headers to the modules of a mount.
//!
//! All mounts share one origin and often one reverse proxy. A header is restricted if a
//! browser applies it to the whole origin or host, or if a proxy obeys it as an order of
//! the server. Headers that apply to one response or one page, such as
//! `content-security-policy`, `refresh`, `cross-origin-opener-policy` or
//! `reporting-endpoints`, are not restricted: a module has that power over its own pages
//! anyway.

use http::{HeaderName, header};
use serde::{Deserialize, Serialize, Serializer};

/// Headers that frame a message or are about the connection.
const HOST_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The prefixes of the headers that reverse proxies obey: nginx (`x-accel-redirect`
/// serves any internal location), Apache and lighttpd (`x-sendfile`,
/// `x-lighttpd-send-file` serve any file), `LiteSpeed` (`x-litespeed-location`,
/// `x-litespeed-purge`), H2O and Perlbal (`x-reproxy-url`), and Envoy
/// (`x-envoy-immediate-health-check-fail`). With the last two, browsers bind a session of
/// the whole site to a device.
const RESTRICTED_PREFIXES: [&str; 8] = [
    "x-accel-",
    "x-sendfile",
    "x-lighttpd-",
    "x-litespeed-",
    "x-reproxy-",
    "x-envoy-",
    "sec-session-",
    "secure-session-",
];

/// Returns whether only the host may set a header.
pub(super) fn is_of_the_host(name: &HeaderName) -> bool {
    HOST_HEADERS.contains(name)
}

/// Returns whether a header affects more than the mount of the module that sets it.
fn is_restricted(name: &HeaderName) -> bool {
    let name = name.as_str();
    // A match distinguishes most names by their length.
    let is_named = matches!(
        name,
        // Browsers apply these to the whole origin or host.
        "accept-ch"
            | "alt-svc"
            | "clear-site-data"
            | "critical-ch"
            | "expect-ct"
            | "nel"
            | "origin-agent-cluster"
            | "public-key-pins"
            | "public-key-pins-report-only"
            | "report-to"
            | "service-worker-allowed"
            | "set-login"
            | "strict-transport-security"
            | "use-as-dictionary"
            // Caches drop other responses of the origin.
            | "cache-group-invalidation"
            // These are between a client and its proxy.
            | "proxy-authenticate"
            | "proxy-authentication-info"
            // Obsolete, and not confined as `set-cookie` is.
            | "set-cookie2"
    );
    is_named || RESTRICTED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The response headers with effects beyond its mount that a module may set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct HeaderGrants(Vec<HeaderGrant>);

/// One such header; `set-cookie` stands for cookies of any path and domain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct HeaderGrant(HeaderName);

/// The reason that a header cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderGrantError {
    /// The text is not a header name.
    #[error("{0:?} is not a header name; expected one such as \"strict-transport-security\"")]
    NotAName(String),
    /// No module may set the header.
    #[error("header {0} is reserved for the host and cannot be granted; remove it")]
    OfTheHost(HeaderName),
    /// Every module may set the header.
    #[error("header {0} needs no grant; remove it")]
    Unrestricted(HeaderName),
}

impl HeaderGrants {
    /// Grants these headers.
    pub fn new<T: AsRef<str>>(names: &[T]) -> Result<Self, HeaderGrantError> {
        let grant = |name: &T| HeaderGrant::try_from(name.as_ref().to_owned());
        names.iter().map(grant).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the grants as a setting of a module.
    #[must_use]
    pub fn as_setting(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|HeaderGrant(name)| format!("\"{name}\"")).collect();
        format!("headers = [{}]", names.join(", "))
    }

    /// Returns whether a module may set this header.
    pub(super) fn permits(&self, name: &HeaderName) -> bool {
        !is_restricted(name) || self.has(name)
    }

    /// Returns whether a module may set cookies beyond its mount.
    pub(super) fn permits_any_cookie(&self) -> bool {
        self.has(&header::SET_COOKIE)
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|HeaderGrant(granted)| granted == name)
    }
}

impl Serialize for HeaderGrant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl TryFrom<String> for HeaderGrant {
    type Error = HeaderGrantError;

    fn try_from(name: String) -> Result<Self, HeaderGrantError> {
        let name: HeaderName = name.parse().map_err(|_| HeaderGrantError::NotAName(name))?;
        if is_of_the_host(&name) {
            Err(HeaderGrantError::OfTheHost(name))
        } else if name == header::SET_COOKIE || is_restricted(&name) {
            Ok(Self(name))
        } else {
            Err(HeaderGrantError::Unrestricted(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderGrants, HeaderName};

    #[test]
    fn a_restricted_header_needs_a_grant_of_its_own() {
        let grants = HeaderGrants::new(&["Strict-Transport-Security", "x-accel-expires"]).unwrap();
        for (name, by_default, granted) in [
            ("content-type", true, true),
            ("refresh", true, true),
            ("reporting-endpoints", true, true),
            ("x-accelerated", true, true),
            ("set-cookie", true, true),
            ("strict-transport-security", false, true),
            ("x-accel-expires", false, true),
            ("x-accel-redirect", false, false),
            ("x-sendfile", false, false),
            ("x-sendfile2", false, false),
            ("x-lighttpd-send-file", false, false),
            ("x-litespeed-location", false, false),
            ("x-reproxy-url", false, false),
            ("service-worker-allowed", false, false),
            ("clear-site-data", false, false),
            ("public-key-pins-report-only", false, false),
            ("alt-svc", false, false),
            ("nel", false, false),
            ("report-to", false, false),
            ("origin-agent-cluster", false, false),
        ] {
            let name = HeaderName::from_static(name);
            assert_eq!(HeaderGrants::default().permits(&name), by_default, "{name}");
            assert_eq!(grants.permits(&name), granted, "{name}");
        }
    }

    #[test]
    fn only_restricted_headers_can_be_granted() {
        for (name, message) in [
            ("a b", "\"a b\" is not a header name; expected one such as"),
            ("x-a\n", "\"x-a\\n\" is not a header name"),
            ("Connection", "header connection is reserved for the host and cannot be granted"),
            ("etag", "header etag needs no grant; remove it"),
        ] {
            let error = HeaderGrants::new(&[name]).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(HeaderGrants::new(&["set-cookie"]).unwrap().permits_any_cookie());
        assert!(!HeaderGrants::default().permits_any_cookie());
    }
}
