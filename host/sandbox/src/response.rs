//! Checks a module's response against HTTP, the limits and the rules of its mount.

use bytes::Bytes;
use bytesize::ByteSize;
use http::header::SET_COOKIE;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::header_grants::{HeaderGrants, is_of_the_host};
use super::limits::Limits;
use super::read_set::MAX_COMMANDS;
use super::set_cookie::{CookieError, confined};
use super::wire;

/// The reason why a module's response is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// The status is not from 200 to 599.
    #[error("status {0} is not from 200 to 599")]
    Status(u16),
    /// A header's name is not a token.
    #[error("header name {0:?} is not a token")]
    HeaderName(String),
    /// A header's value has a byte that HTTP does not allow.
    #[error("the value of header {0} has a byte that HTTP does not allow")]
    HeaderValue(HeaderName),
    /// There are more headers than the limit allows.
    #[error("it has {count} headers; the maximum is {limit} (limits.headers)")]
    TooManyHeaders {
        /// The number of headers.
        count: usize,
        /// The maximum number of headers.
        limit: u32,
    },
    /// The headers are larger than the limit allows.
    #[error("the headers have {size}; the maximum is {limit} (limits.header-size)")]
    LargeHeaders {
        /// The bytes of their names and values.
        size: ByteSize,
        /// The maximum size.
        limit: ByteSize,
    },
    /// The body is larger than the limit allows.
    #[error("the body has {size}; the maximum is {limit} (limits.body)")]
    LargeBody {
        /// The size of the body.
        size: ByteSize,
        /// The maximum size.
        limit: ByteSize,
    },
    /// The response is much larger than the limits allow, and was not read.
    #[error(
        "its body is larger than {body} (limits.body), or its headers are larger than {header_size} (limits.header-size) or more than {headers} (limits.headers)"
    )]
    TooLarge {
        /// The maximum size of the body.
        body: ByteSize,
        /// The maximum size of the headers.
        header_size: ByteSize,
        /// The maximum number of headers.
        headers: u32,
    },
    /// A component of `wasi:http` ended without a response.
    #[error("there is none; the component must call response-outparam.set")]
    NotSet,
    /// A component of `wasi:http` responded with an error.
    #[error("it is the error {0} of wasi:http")]
    ErrorCode(String),
    /// A component of `wasi:http` has not finished the body.
    #[error("its body is incomplete; the component must call outgoing-body.finish")]
    Unfinished,
    /// A component of `wasi:http` has announced another length.
    #[error("its header content-length is {announced}, but its body has {written} bytes")]
    ContentLength {
        /// The value of the header.
        announced: String,
        /// The bytes of the body.
        written: usize,
    },
    /// There are too many commands.
    #[error("it has more than {MAX_COMMANDS} commands")]
    TooManyCommands,
    /// Only the host may set this header.
    #[error("header {0} is reserved for the host")]
    HostHeader(HeaderName),
    /// A header affects more than the mount, and is not granted.
    #[error(
        "header {header} affects more than the mount {mount}; remove it, or grant it with headers = [\"{header}\"] in {}",
        section(mount)
    )]
    Restricted {
        /// The header.
        header: HeaderName,
        /// The path of the mount.
        mount: String,
    },
    /// A cookie affects more than the mount, and is not granted.
    #[error(
        "header set-cookie affects more than the mount {mount}: the cookie {error}; remove it, or grant it with headers = [\"set-cookie\"] in {}",
        section(mount)
    )]
    Cookie {
        /// The problem with the cookie.
        error: CookieError,
        /// The path of the mount.
        mount: String,
    },
}

/// Returns the section of the settings for the modules of a mount.
fn section(mount: &str) -> &'static str {
    if mount == "/" { "[module]" } else { "its section [[extension]]" }
}

/// The rules for the responses of a mount's modules.
pub(super) struct HeaderRules<'a> {
    pub(super) limits: &'a Limits,
    pub(super) headers: &'a HeaderGrants,
    /// The path of the mount.
    pub(super) mount: &'a str,
}

/// Converts a module's response, and returns an error if HTTP or its mount does not allow
/// it.
pub(super) fn response(
    raw: wire::Response,
    allowed: &HeaderRules<'_>,
) -> Result<Response<Bytes>, InvalidResponse> {
    check_size(&raw, allowed.limits)?;
    let mut response = Response::new(raw.body);
    *response.status_mut() = StatusCode::from_u16(raw.status)
        .ok()
        .filter(|_| (200..600).contains(&raw.status))
        .ok_or(InvalidResponse::Status(raw.status))?;
    for wire::Header { name, value } in raw.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| InvalidResponse::HeaderName(name))?;
        let value = HeaderValue::from_maybe_shared(Bytes::from(value))
            .map_err(|_| InvalidResponse::HeaderValue(name.clone()))?;
        let value = allowed.value(&name, value)?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

impl HeaderRules<'_> {
    /// Returns the value that a header has when it leaves the mount, or an error if the
    /// module may not set it.
    fn value(&self, name: &HeaderName, value: HeaderValue) -> Result<HeaderValue, InvalidResponse> {
        if is_of_the_host(name) {
            return Err(InvalidResponse::HostHeader(name.clone()));
        }
        if !self.headers.permits(name) {
            let header = name.clone();
            let mount = self.mount.to_owned();
            return Err(InvalidResponse::Restricted { header, mount });
        }
        if *name == SET_COOKIE && !self.headers.permits_any_cookie() {
            let mount = || self.mount.to_owned();
            return confined(value, self.mount)
                .map_err(|error| InvalidResponse::Cookie { error, mount: mount() });
        }
        Ok(value)
    }
}

fn check_size(raw: &wire::Response, limits: &Limits) -> Result<(), InvalidResponse> {
    let size = |bytes: usize| ByteSize::b(bytes as u64);
    let count = raw.headers.len();
    if count > limits.headers as usize {
        return Err(InvalidResponse::TooManyHeaders { count, limit: limits.headers });
    }
    let headers = raw.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if size(headers) > limits.header_size {
        let limit = limits.header_size;
        return Err(InvalidResponse::LargeHeaders { size: size(headers), limit });
    }
    if size(raw.body.len()) > limits.body {
        return Err(InvalidResponse::LargeBody { size: size(raw.body.len()), limit: limits.body });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{HeaderGrants, HeaderRules, InvalidResponse, Limits, wire};
    use bytesize::ByteSize;
    use http::HeaderName;

    fn raw(status: u16, headers: &[(&str, &[u8])]) -> wire::Response {
        let headers = headers
            .iter()
            .map(|(name, value)| wire::Header { name: (*name).to_owned(), value: value.to_vec() })
            .collect();
        wire::Response { status, headers, body: "body".into() }
    }

    type ParseResult = Result<http::Response<bytes::Bytes>, InvalidResponse>;

    fn response(raw: wire::Response, limits: &Limits) -> ParseResult {
        super::response(raw, &HeaderRules { limits, headers: &HeaderGrants::default(), mount: "/" })
    }

    fn parse(raw: wire::Response) -> ParseResult {
        response(raw, &Limits::default())
    }

    #[test]
    fn a_valid_response_is_unchanged() {
        let response = parse(raw(404, &[("X-A", b"1"), ("x-a", b"\xff")])).unwrap();
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers().get_all("x-a").iter().count(), 2);
        assert_eq!(response.body(), "body");
    }

    #[test]
    fn responses_beyond_the_limits_are_rejected() {
        let limits = Limits {
            headers: 3,
            header_size: ByteSize::b(27),
            body: ByteSize::b(4),
            ..Limits::default()
        };
        let same = |count, value| raw(200, &vec![("name", value); count]);
        response(same(3, b"value"), &limits).unwrap();
        let refused = |raw| response(raw, &limits).unwrap_err();
        assert_eq!(refused(same(4, b"")), InvalidResponse::TooManyHeaders { count: 4, limit: 3 });
        let size = ByteSize::b(30);
        let limit = limits.header_size;
        assert_eq!(refused(same(3, b"values")), InvalidResponse::LargeHeaders { size, limit });
        let large = wire::Response { body: "large".into(), ..raw(200, &[]) };
        let size = ByteSize::b(5);
        let limit = limits.body;
        assert_eq!(refused(large), InvalidResponse::LargeBody { size, limit });
    }

    #[test]
    fn responses_that_are_not_valid_http_are_rejected() {
        let host_header =
            |name: &'static str| InvalidResponse::HostHeader(HeaderName::from_static(name));
        for (status, headers, expected) in [
            (0, ("a", b"b".as_slice()), InvalidResponse::Status(0)),
            (199, ("a", b"b"), InvalidResponse::Status(199)),
            (600, ("a", b"b"), InvalidResponse::Status(600)),
            (1000, ("a", b"b"), InvalidResponse::Status(1000)),
            (200, ("a b", b"c"), InvalidResponse::HeaderName("a b".into())),
            (200, ("", b"c"), InvalidResponse::HeaderName(String::new())),
            (200, ("a", b"b\r\nc: d"), InvalidResponse::HeaderValue(HeaderName::from_static("a"))),
            (200, ("Content-Length", b"1"), host_header("content-length")),
            (200, ("Transfer-Encoding", b"chunked"), host_header("transfer-encoding")),
            (200, ("Connection", b"close"), host_header("connection")),
        ] {
            assert_eq!(parse(raw(status, &[headers])).unwrap_err(), expected);
        }
    }

    #[test]
    fn headers_beyond_the_mount_need_a_grant() {
        let limits = Limits::default();
        let granted = HeaderGrants::new(&["strict-transport-security", "set-cookie"]).unwrap();
        let none = HeaderGrants::default();
        for (mount, section) in [("/", "[module]"), ("/ext/x", "its section [[extension]]")] {
            for (name, value, problem) in [
                ("Strict-Transport-Security", "max-age=1", ""),
                ("set-cookie", "a=b; domain=c; path=/", ": the cookie has a Domain attribute"),
            ] {
                let raw = || raw(200, &[(name, value.as_bytes())]);
                let allowed = |headers| HeaderRules { limits: &limits, headers, mount };
                let error = super::response(raw(), &allowed(&none)).unwrap_err();
                let error = error.to_string();
                let name = name.to_ascii_lowercase();
                let start = format!("header {name} affects more than the mount {mount}{problem}");
                assert!(error.starts_with(&start), "{error}");
                let end = format!("grant it with headers = [\"{name}\"] in {section}");
                assert!(error.ends_with(&end), "{error}");
                let response = super::response(raw(), &allowed(&granted)).unwrap();
                assert_eq!(response.headers()[&*name], value);
            }
        }
    }

    #[test]
    fn each_cookie_is_confined_to_the_mount() {
        let cookies = raw(200, &[("set-cookie", b"a=b; Path=/"), ("Set-Cookie", b"c=d")]);
        let limits = Limits::default();
        let headers = HeaderGrants::default();
        let allowed = HeaderRules { limits: &limits, headers: &headers, mount: "/ext/x" };
        let response = super::response(cookies, &allowed).unwrap();
        let cookies: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=b; Path=/ext/x", "c=d; Path=/ext/x"]);
    }
}
