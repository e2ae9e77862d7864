//! Validates a request before routing: its form, its host and its size.

use hyper::header::{HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Version};

use super::error::HostError;
use super::field_values::FieldLines;
use super::host;
use super::limits::HttpLimits;

/// Checks the head of a request.
pub(super) fn head<B>(
    request: &Request<B>,
    limits: &HttpLimits,
    default_port: u16,
) -> Result<(), HostError> {
    let target = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    if target.len() as u64 > limits.target.as_u64() {
        return Err(HostError::TargetTooLong);
    }
    let (mut codings, mut hosts) = (FieldLines::None, FieldLines::None);
    for (name, value) in request.headers() {
        if *name == HOST {
            hosts = hosts.and(value);
        } else if *name == TRANSFER_ENCODING {
            codings = codings.and(value);
        }
    }
    // RFC 9112, 6.1: chunked once. Hyper accepts more as chunked, a proxy may not.
    match codings {
        FieldLines::None => {}
        FieldLines::One(coding) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
        FieldLines::One(_) | FieldLines::Several => return Err(HostError::BadBody),
    }
    if request.headers().len() > limits.headers as usize {
        return Err(HostError::HeadersTooMany);
    }
    // With HTTP/1, hyper limits the received bytes; with HTTP/2, the size is defined by
    // RFC 9113, 6.5.2.
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 32;
    if request.version() == Version::HTTP_2
        && request.headers().iter().map(size).sum::<usize>() as u64 > limits.head.as_u64()
    {
        return Err(HostError::HeadTooLarge);
    }
    form(request)?;
    host::check(request, hosts, &limits.hosts, default_port)
}

/// Checks that the target is a path, or `*` with OPTIONS.
fn form<B>(request: &Request<B>) -> Result<(), HostError> {
    let method = request.method();
    let path = request.uri().path();
    // RFC 9110, 9.1: not implemented for any target, so not 405, which is about one
    // target. A tunnel has no target here.
    if *method == Method::CONNECT {
        return Err(HostError::NotImplemented);
    }
    if path.starts_with('/') || (path == "*" && *method == Method::OPTIONS) {
        Ok(())
    } else {
        Err(HostError::BadTarget)
    }
}

#[cfg(test)]
mod tests {
    use super::{HostError, HttpLimits, head};
    use hyper::{Method, Request};

    #[test]
    fn a_target_is_a_path() {
        for (method, target, expected) in [
            (Method::GET, "/", Ok(())),
            (Method::POST, "//a?b", Ok(())),
            (Method::GET, "http://x", Ok(())),
            (Method::GET, "http://x?a", Ok(())),
            (Method::OPTIONS, "*", Ok(())),
            (Method::OPTIONS, "/", Ok(())),
            (Method::GET, "*", Err(HostError::BadTarget)),
            (Method::POST, "*", Err(HostError::BadTarget)),
            (Method::GET, "x", Err(HostError::BadTarget)),
            (Method::GET, "x:80", Err(HostError::BadTarget)),
            (Method::OPTIONS, "x:80", Err(HostError::BadTarget)),
            (Method::CONNECT, "x:80", Err(HostError::NotImplemented)),
            (Method::CONNECT, "/", Err(HostError::NotImplemented)),
            (Method::TRACE, "/", Ok(())),
        ] {
            let request = Request::builder().method(&method).uri(target).header("host", "x");
            let checked = head(&request.body(()).unwrap(), &HttpLimits::default(), 80);
            assert_eq!(checked, expected, "{method} {target}");
        }
    }

    #[test]
    fn a_body_is_chunked_once() {
        for (codings, expected) in [
            (&[][..], Ok(())),
            (&["chunked"], Ok(())),
            (&["Chunked"], Ok(())),
            (&["chunked", "chunked"], Err(HostError::BadBody)),
            (&["chunked, chunked"], Err(HostError::BadBody)),
            (&["gzip"], Err(HostError::BadBody)),
            (&[""], Err(HostError::BadBody)),
        ] {
            let mut request = Request::post("/").header("a", "chunked").header("host", "x");
            for coding in codings {
                request = request.header("transfer-encoding", *coding);
            }
            let checked = head(&request.body(()).unwrap(), &HttpLimits::default(), 80);
            assert_eq!(checked, expected, "{codings:?}");
        }
    }
}
