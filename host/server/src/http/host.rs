//! Validates the host of a request, and checks whether the server serves it.

use std::net::Ipv6Addr;
use std::str::FromStr;

use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Request, Version};
use serde::{Deserialize, Serialize, Serializer};

use super::error::HostError;
use super::field_values::FieldLines;

/// The maximum number of entries of a list of hosts: each request is compared with all of
/// them.
pub(super) const MAX_HOSTS: usize = 256;

/// An entry of a list of hosts, with a port or for any port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AllowedHost {
    /// The name in lower case, without the final dot.
    name: Name<String>,
    port: Option<u16>,
}

/// A text that is not a valid entry of a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a host; expected a name or an address with or without a port, such as \"api.example\", \"127.0.0.1:3000\" or \"[::1]\", without scheme, path or wildcard"
)]
pub struct AllowedHostError(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name<T> {
    Text(T),
    V6(Ipv6Addr),
}

/// The host of a request, with its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host<'a> {
    /// The name, not empty, and without the final dot.
    name: Name<&'a [u8]>,
    port: Option<u16>,
}

/// Checks that a request, with these lines of the Host header, has one valid host, and that a list
/// contains it. An empty list allows all hosts. The default port is that of the scheme of the connection.
pub(super) fn check<B>(
    request: &Request<B>,
    lines: FieldLines<'_>,
    allowed: &[AllowedHost],
    default_port: u16,
) -> Result<(), HostError> {
    let host = request_host(request, lines)?;
    let default_port = match request.uri().scheme() {
        None => default_port,
        Some(scheme) if *scheme == Scheme::HTTP => 80,
        Some(scheme) if *scheme == Scheme::HTTPS => 443,
        // RFC 9110, 7.4: this server is not the origin of URIs with other schemes.
        Some(_) => return Err(HostError::Misdirected),
    };
    let is_allowed = |host: Host<'_>| allowed.iter().any(|entry| entry.is(host, default_port));
    if allowed.is_empty() || host.is_some_and(is_allowed) {
        Ok(())
    } else {
        Err(HostError::Misdirected)
    }
}

/// Returns whether a request has one valid host, which a list contains.
#[cfg(feature = "control")]
pub(crate) fn is_for<B>(request: &Request<B>, hosts: &[AllowedHost]) -> bool {
    check(request, FieldLines::of(request.headers(), &HOST), hosts, 80).is_ok()
}

/// Returns the host of a request, if it has one.
fn request_host<'a, B>(
    request: &'a Request<B>,
    lines: FieldLines<'a>,
) -> Result<Option<Host<'a>>, HostError> {
    let line = match lines {
        FieldLines::None => None,
        FieldLines::One(line) => Some(line.as_bytes()),
        FieldLines::Several => return Err(HostError::BadHost),
    };
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let parse = |text| Host::parse(text).ok_or(HostError::BadHost);
    match (request.version(), authority, line) {
        // RFC 9113, 8.3.1: the authority, and no Host header that differs from it; or one
        // Host header. Neither is empty.
        (Version::HTTP_2, Some(authority), Some(line)) if !authority.eq_ignore_ascii_case(line) => {
            Err(HostError::BadHost)
        }
        (Version::HTTP_2, Some(host), _) | (Version::HTTP_2, None, Some(host)) => {
            parse(host).map(Some)
        }
        // RFC 9112, 3.2: one Host header, which may be empty.
        (Version::HTTP_2 | Version::HTTP_11, _, None) => Err(HostError::BadHost),
        // RFC 9112, 3.2.2: the authority of the target overrides the Host header.
        (_, authority, line) => {
            let line = line.filter(|line| !line.is_empty()).map(parse).transpose()?;
            let authority = authority.map(parse).transpose()?;
            Ok(authority.or(line))
        }
    }
}

/// Sets the Host header of a request to the authority of its target, if it has one: a
/// module sees the same host for all versions of HTTP.
pub(super) fn settle<B>(request: &mut Request<B>) {
    if let Some(host) = of_target(request)
        && request.headers().get(HOST) != Some(&host)
    {
        request.headers_mut().insert(HOST, host);
    }
}

/// Returns the authority of the target of a request, if it has one.
pub(super) fn of_target<B>(request: &Request<B>) -> Option<HeaderValue> {
    HeaderValue::from_str(request.uri().authority()?.as_str()).ok()
}

impl<'a> Host<'a> {
    /// Parses a host and an optional port (RFC 3986, 3.2.2 and 3.2.3).
    fn parse(text: &'a [u8]) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(b"[") {
            let (address, rest) = str::from_utf8(rest).ok()?.split_once(']')?;
            let port =
                if rest.is_empty() { None } else { port(rest.strip_prefix(':')?.as_bytes())? };
            return Some(Self { name: Name::V6(address.parse().ok()?), port });
        }
        let (name, rest) = text.split_at(name_length(text));
        let port = match rest {
            [] => None,
            [b':', digits @ ..] => port(digits)?,
            _ => return None,
        };
        let name = name.strip_suffix(b".").unwrap_or(name);
        (!name.is_empty()).then_some(Self { name: Name::Text(name), port })
    }
}

/// Parses a port, which may be empty.
#[allow(clippy::option_option, reason = "no port is valid, too")]
fn port(digits: &[u8]) -> Option<Option<u16>> {
    if digits.is_empty() {
        return Some(None);
    }
    let number = digits.iter().try_fold(0_u16, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.map(Some)
}

/// The bytes of a name or an IPv4 address that need not be encoded. A comma, which RFC 3986 allows,
/// would mean two hosts in one line.
static IS_NAME: [bool; 256] = {
    let mut is_name = [false; 256];
    let mut others =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~!$&'()*+;=".as_slice();
    while let [byte, rest @ ..] = others {
        is_name[*byte as usize] = true;
        others = rest;
    }
    is_name
};

/// Returns the length of the name or the IPv4 address that a text begins with.
fn name_length(text: &[u8]) -> usize {
    let mut rest = text;
    loop {
        match rest {
            [byte, others @ ..] if IS_NAME[usize::from(*byte)] => rest = others,
            [b'%', first, second, others @ ..]
                if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
            {
                rest = others;
            }
            _ => return text.len() - rest.len(),
        }
    }
}

impl AllowedHost {
    fn is(&self, host: Host<'_>, default_port: u16) -> bool {
        let is_name = match (&self.name, host.name) {
            (Name::Text(allowed), Name::Text(name)) => {
                allowed.as_bytes().eq_ignore_ascii_case(name)
            }
            (Name::V6(allowed), Name::V6(address)) => *allowed == address,
            _ => false,
        };
        is_name && self.port.is_none_or(|port| port == host.port.unwrap_or(default_port))
    }
}

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(text: &str) -> Result<Self, AllowedHostError> {
        let invalid = || AllowedHostError(text.to_owned());
        let host = Host::parse(text.as_bytes()).ok_or_else(invalid)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let name = match host.name {
            Name::Text(name) if name.iter().copied().all(is_plain) => {
                let name = str::from_utf8(name).map_err(|_| invalid())?;
                Name::Text(name.to_ascii_lowercase())
            }
            Name::V6(address) => Name::V6(address),
            Name::Text(_) => return Err(invalid()),
        };
        if host.port == Some(0) || text.ends_with(':') {
            return Err(invalid());
        }
        Ok(Self { name, port: host.port })
    }
}

impl Serialize for AllowedHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match &self.name {
            Name::Text(name) => name.clone(),
            Name::V6(address) => format!("[{address}]"),
        };
        match self.port {
            Some(port) => serializer.collect_str(&format_args!("{name}:{port}")),
            None => serializer.serialize_str(&name),
        }
    }
}

impl TryFrom<String> for AllowedHost {
    type Error = AllowedHostError;

    fn try_from(text: String) -> Result<Self, AllowedHostError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::{AllowedHost, FieldLines, HOST, HostError, Request, Version, settle};

    fn request(version: Version, uri: &str, hosts: &[&[u8]]) -> Request<()> {
        let mut request = Request::get(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    fn check(request: &Request<()>, allowed: &[AllowedHost], port: u16) -> Result<(), HostError> {
        super::check(request, FieldLines::of(request.headers(), &HOST), allowed, port)
    }

    fn checked(version: Version, uri: &str, hosts: &[&[u8]]) -> Result<(), HostError> {
        check(&request(version, uri, hosts), &[], 80)
    }

    const VERSIONS: [Version; 3] = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2];

    #[test]
    fn a_request_has_one_valid_host() {
        for version in VERSIONS {
            for host in [
                "x",
                "X.",
                "127.0.0.1:80",
                "[::1]:3000",
                "[::1]",
                "[::ffff:1.2.3.4]:",
                "a:",
                "a-b.example:1",
                "a%20b",
                "a_b",
                "a:00080",
                "a..",
            ] {
                assert_eq!(checked(version, "/", &[host.as_bytes()]), Ok(()), "{host}");
            }
            for host in [&b"\xff"[..], b"a:\xff", b"[\xff]", b"[::1]\xff", b"[::1]:\xff"] {
                assert_eq!(checked(version, "/", &[host]), Err(HostError::BadHost), "{host:?}");
            }
            for host in [
                "a b",
                "a/b",
                "u@h",
                "\u{fc}",
                "a,b",
                "a?",
                "a%2",
                "a%zz",
                "a:b",
                "a:1:2",
                "a:+1",
                "a:65536",
                "a:0000065536",
                ":80",
                ".",
                "[::1",
                "::1",
                "[::1]a",
                "[a]",
                "[::1%25lo]",
                "a[::1]",
            ] {
                let refused = checked(version, "/", &[host.as_bytes()]);
                assert_eq!(refused, Err(HostError::BadHost), "{version:?} {host:?}");
            }
            for hosts in [[&b"a"[..], b"a"], [b"a", b"b"], [b"", b""]] {
                assert_eq!(checked(version, "/", &hosts), Err(HostError::BadHost), "{version:?}");
            }
        }
        assert_eq!(checked(Version::HTTP_10, "/", &[]), Ok(()));
        assert_eq!(checked(Version::HTTP_11, "/", &[]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_2, "/", &[]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_10, "/", &[b""]), Ok(()));
        assert_eq!(checked(Version::HTTP_11, "/", &[b""]), Ok(()));
        assert_eq!(checked(Version::HTTP_2, "/", &[b""]), Err(HostError::BadHost));
    }

    #[test]
    fn an_authority_is_the_host() {
        for version in VERSIONS {
            assert_eq!(checked(version, "http://a:1/", &[b"A:1"]), Ok(()));
            for uri in ["http://u:p@a/", "http://a:65536/", "ftp://u@a/"] {
                assert_eq!(checked(version, uri, &[b"a"]), Err(HostError::BadHost), "{uri}");
            }
            assert_eq!(checked(version, "ftp://a/", &[b"a"]), Err(HostError::Misdirected));
            assert_eq!(checked(version, "https://a/", &[b"a"]), Ok(()));
        }
        assert_eq!(checked(Version::HTTP_2, "http://a:1/", &[]), Ok(()));
        assert_eq!(checked(Version::HTTP_2, "http://a:1/", &[b"b"]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_11, "http://a:1/", &[b"b"]), Ok(()));
        assert_eq!(checked(Version::HTTP_11, "http://a:1/", &[]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_11, "http://a:1/", &[b"u@h"]), Err(HostError::BadHost));
    }

    #[test]
    fn hosts_that_are_not_listed_are_misdirected() {
        let entries = ["API.example.", "127.0.0.1:3000", "[0:0::1]:80", "a:443"];
        let allowed = entries.map(|entry| entry.parse::<AllowedHost>().unwrap());
        for (uri, host, is_allowed) in [
            ("/", "api.example", true),
            ("/", "Api.Example.:9", true),
            ("/", "api.example.evil", false),
            ("/", "127.0.0.1:3000", true),
            ("/", "127.0.0.1:3001", false),
            ("/", "127.0.0.1", false),
            ("/", "[::1]", true),
            ("/", "[::1]:80", true),
            ("/", "[::1]:81", false),
            ("/", "[::2]", false),
            ("/", "a", false),
            ("/", "", false),
            ("https://a/", "a", true),
            ("http://a/", "a", false),
            ("http://evil/", "api.example", false),
            ("http://api.example/", "evil", true),
        ] {
            let request = request(Version::HTTP_11, uri, &[host.as_bytes()]);
            let checked = check(&request, &allowed, 80);
            let expected = if is_allowed { Ok(()) } else { Err(HostError::Misdirected) };
            assert_eq!(checked, expected, "{uri} {host}");
        }
        let checked = |version, uri| check(&request(version, uri, &[]), &allowed, 80);
        assert_eq!(checked(Version::HTTP_10, "/"), Err(HostError::Misdirected));
        assert_eq!(checked(Version::HTTP_2, "http://evil/"), Err(HostError::Misdirected));
        assert_eq!(checked(Version::HTTP_2, "http://api.example:1/"), Ok(()));
    }

    #[test]
    fn a_list_contains_only_hosts() {
        for text in [
            "",
            " a",
            "a b",
            "*",
            "*.example",
            "http://a",
            "a/",
            "a:",
            "a:0",
            "a:x",
            "::1",
            "[::1",
            "u@a",
            "a,b",
            "\u{fc}.example",
            "a%20",
        ] {
            let error = text.parse::<AllowedHost>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not a host; ")), "{error}");
        }
    }

    #[test]
    fn the_authority_replaces_the_host_header() {
        for hosts in [&[][..], &[&b"b"[..]], &[b"a:1"]] {
            let mut request = request(Version::HTTP_11, "http://a:1/", hosts);
            settle(&mut request);
            let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
            assert_eq!(hosts, ["a:1"]);
        }
        let mut request = request(Version::HTTP_11, "/", &[b"b"]);
        settle(&mut request);
        assert_eq!(request.headers()[HOST], "b");
    }
}
