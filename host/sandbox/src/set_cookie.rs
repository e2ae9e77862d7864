//! Confines the cookies of a module to its mount.
//!
//! A `set-cookie` header is parsed as browsers parse it (RFC 6265, 5.2, and its
//! revision), not as servers should write it: a value that a lenient client accepts must
//! not escape the mount. The rest of the header is kept byte for byte.

use http::HeaderValue;

/// The maximum length of an attribute, in bytes. Browsers ignore longer ones.
const MAX_ATTRIBUTE: usize = 1024;

/// The reason why a cookie cannot be confined to a mount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CookieError {
    /// The cookie is for other hosts as well.
    #[error("has a Domain attribute, which sends it to other hosts")]
    Domain,
    /// Browsers accept a cookie of this name only with the path `/`.
    #[error("has a name that begins with __Host-, which needs the path /")]
    HostPrefix,
}

/// Returns the header with a path that is not outside the mount.
pub(super) fn confined(value: HeaderValue, mount: &str) -> Result<HeaderValue, CookieError> {
    let mut parts = value.as_bytes().split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    if mount != "/" && is_for_the_root(pair) {
        return Err(CookieError::HostPrefix);
    }
    let mut kept = pair.to_vec();
    let mut paths = Vec::new();
    for attribute in parts {
        let (name, value) = name_and_value(attribute);
        if name.eq_ignore_ascii_case(b"domain") {
            return Err(CookieError::Domain);
        }
        if name.eq_ignore_ascii_case(b"path") {
            paths.push(value);
        } else {
            kept.push(b';');
            kept.extend_from_slice(attribute);
        }
    }
    // A cookie without a path gets the folder of the request's path: for a request for
    // the mount itself, the folder above the mount.
    let is_confined = match &paths[..] {
        _ if mount == "/" => true,
        [path] => is_within(path, mount),
        _ => false,
    };
    if is_confined {
        return Ok(value);
    }
    // Of several paths, browsers use the last one.
    let path = paths.last().copied().filter(|path| is_within(path, mount));
    kept.extend_from_slice(b"; Path=");
    kept.extend_from_slice(path.unwrap_or(mount.as_bytes()));
    Ok(HeaderValue::from_maybe_shared(bytes::Bytes::from(kept))
        .expect("it has parts of a header's value and a path"))
}

/// Returns whether a cookie's name, or the value of a cookie without a name, has the
/// prefix of cookies that are for the path `/`.
fn is_for_the_root(pair: &[u8]) -> bool {
    const PREFIX: &[u8] = b"__host-";
    let is_prefixed = |text: &[u8]| {
        text.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
    };
    let (name, value) = name_and_value(pair);
    is_prefixed(name) || (name.is_empty() && is_prefixed(value))
}

fn name_and_value(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'=');
    let (name, value) = text.split_at(end.unwrap_or(text.len()));
    (name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii())
}

/// Returns whether all requests for a path are requests for the mount.
fn is_within(path: &[u8], mount: &str) -> bool {
    let rest = path.strip_prefix(mount.as_bytes());
    path.len() <= MAX_ATTRIBUTE && rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::{CookieError, HeaderValue, confined};

    fn confine(cookie: &str, mount: &str) -> Result<String, CookieError> {
        let confined = confined(HeaderValue::try_from(cookie).unwrap(), mount)?;
        Ok(confined.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_path_within_the_mount_is_kept() {
        for cookie in [
            "a=b; Path=/ext/x",
            "a=b;path = /ext/x/ ;Secure; HttpOnly; SameSite=Lax; Max-Age=1; Future",
            "a=b; Path=/ext/x/y; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "__Secure-a=b; Secure; PATH=/ext/x",
            "a=\"b\"; Path=/ext/x",
        ] {
            assert_eq!(confine(cookie, "/ext/x").as_deref(), Ok(cookie));
        }
    }

    #[test]
    fn any_other_path_is_replaced_by_the_mounts() {
        let long = format!("a=b; Path=/ext/x/{}", "y".repeat(1024));
        for (cookie, expected) in [
            ("a=b", "a=b; Path=/ext/x"),
            ("", "; Path=/ext/x"),
            ("a=b; Secure", "a=b; Secure; Path=/ext/x"),
            ("a=b; Path=/", "a=b; Path=/ext/x"),
            ("a=b; Path=", "a=b; Path=/ext/x"),
            ("a=b; Path", "a=b; Path=/ext/x"),
            ("a=b; Path=x", "a=b; Path=/ext/x"),
            ("a=b; Path=/ext", "a=b; Path=/ext/x"),
            ("a=b; Path=/ext/xy; Secure", "a=b; Secure; Path=/ext/x"),
            ("a=b; Path=\"/ext/x\"", "a=b; Path=/ext/x"),
            ("a=b; Path=/ext/x; \t pAtH\t=/", "a=b; Path=/ext/x"),
            ("a=b; Path=/; Path=/ext/x/y", "a=b; Path=/ext/x/y"),
            ("a=b; Path=/ext/x/y; Path=/ext/x/z", "a=b; Path=/ext/x/z"),
            (&long, "a=b; Path=/ext/x"),
        ] {
            assert_eq!(confine(cookie, "/ext/x").as_deref(), Ok(expected), "{cookie}");
        }
    }

    #[test]
    fn cookies_of_other_hosts_and_of_the_root_are_rejected() {
        for mount in ["/ext/x", "/"] {
            for cookie in ["a=b; Domain=example.com", "a=b;\tdomain", "a=b; Path=/ext/x;DOMAIN = "]
            {
                assert_eq!(confine(cookie, mount), Err(CookieError::Domain), "{cookie}");
            }
        }
        for cookie in ["__Host-a=b; Secure; Path=/", " __hOST-a=b", "=__Host-a=b", "__Host-a"] {
            assert_eq!(confine(cookie, "/ext/x"), Err(CookieError::HostPrefix), "{cookie}");
        }
    }

    #[test]
    fn every_path_is_within_the_mount_of_the_api() {
        for cookie in ["a=b", "a=b; Path=/", "__Host-a=b; Secure; Path=/", "a=b; Path=/x; Path=y"] {
            assert_eq!(confine(cookie, "/").as_deref(), Ok(cookie));
        }
    }
}
