//! What is looked at before a request is anybody's: whether it is one, and
//! whether it is too large.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Version};
use tokio::time::timeout;

use super::error::HostError;
use super::limits::HttpLimits;
use super::liveness::AwaitedBody;

/// Looks at a request's head.
pub(super) fn head<B>(request: &Request<B>, limits: &HttpLimits) -> Result<(), HostError> {
    let target = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    if target.len() as u64 > limits.target.as_u64() {
        return Err(HostError::TargetTooLong);
    }
    if request.headers().len() > limits.headers as usize {
        return Err(HostError::HeadersTooMany);
    }
    // Of HTTP/1 the library looks at what came; of HTTP/2 the size is that of RFC
    // 9113, 6.5.2.
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 32;
    if request.version() == Version::HTTP_2
        && request.headers().iter().map(size).sum::<usize>() as u64 > limits.head.as_u64()
    {
        return Err(HostError::HeadTooLarge);
    }
    let mut hosts = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    let is_host = match (request.version(), request.uri().authority()) {
        // RFC 9112, 3.2: one, and not what no authority is.
        (Version::HTTP_11, _) => hosts.next().is_some_and(is_host) && hosts.next().is_none(),
        // RFC 9113, 8.3.1: the authority, and no host that is another; or one
        // host. Neither is empty.
        (Version::HTTP_2, Some(authority)) => {
            let authority = authority.as_str().as_bytes();
            is_host(authority) && hosts.all(|host| host == authority)
        }
        (Version::HTTP_2, None) => {
            let is_one = |host: &[u8]| !host.is_empty() && is_host(host);
            hosts.next().is_some_and(is_one) && hosts.next().is_none()
        }
        _ => true,
    };
    if is_host { Ok(()) } else { Err(HostError::BadHost) }
}

fn is_host(text: &[u8]) -> bool {
    text.iter().copied().all(is_of_a_host)
}

/// Whether a name or an address with a port may have this byte.
fn is_of_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(&byte)
}

/// Reads what a request has for a body, and forgets it: no route wants one.
pub(super) async fn discard(
    body: Incoming,
    limits: &HttpLimits,
    awaited: &AwaitedBody,
) -> Result<(), HostError> {
    let most = limits.body.as_u64();
    if body.size_hint().lower() > most {
        return Err(HostError::BodyTooLarge);
    }
    let mut body = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX));
    let read = async {
        while let Some(frame) = body.frame().await {
            awaited.goes_on();
            // A connection that is gone is closed by who serves it.
            frame.map_err(|error| {
                let is_large = error.is::<LengthLimitError>();
                if is_large { HostError::BodyTooLarge } else { HostError::BadBody }
            })?;
        }
        Ok(())
    };
    timeout(limits.idle, read).await.unwrap_or(Err(HostError::RequestTimeout))
}

#[cfg(test)]
mod tests {
    use super::{HostError, HttpLimits, head};
    use hyper::{Request, Version};

    fn checked(version: Version, hosts: &[&[u8]]) -> Result<(), HostError> {
        let mut request = Request::get("/").version(version);
        for host in hosts {
            request = request.header("host", *host);
        }
        head(&request.body(()).unwrap(), &HttpLimits::default())
    }

    #[test]
    fn a_request_has_one_host() {
        for host in ["x", "", "127.0.0.1:80", "[::1]:3000", "a-b.example:1", "a%20b"] {
            assert_eq!(checked(Version::HTTP_11, &[host.as_bytes()]), Ok(()), "{host}");
        }
        for hosts in ["", "a\na", "a b", "a/b", "u@h", "\u{fc}", "a,b", "a?"] {
            let lines: Vec<_> = hosts.lines().map(str::as_bytes).collect();
            assert_eq!(checked(Version::HTTP_11, &lines), Err(HostError::BadHost), "{hosts:?}");
        }
        assert_eq!(checked(Version::HTTP_10, &[]), Ok(()));
        assert_eq!(checked(Version::HTTP_2, &[]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_2, &[b""]), Err(HostError::BadHost));
        assert_eq!(checked(Version::HTTP_2, &[b"x"]), Ok(()));
        assert_eq!(checked(Version::HTTP_2, &[b"x", b"x"]), Err(HostError::BadHost));
    }

    #[test]
    fn an_authority_is_the_host() {
        let checked = |uri: &str, hosts: &[&str]| {
            let mut request = Request::get(uri).version(Version::HTTP_2);
            for host in hosts {
                request = request.header("host", *host);
            }
            head(&request.body(()).unwrap(), &HttpLimits::default())
        };
        assert_eq!(checked("http://a:1/", &[]), Ok(()));
        assert_eq!(checked("http://a:1/", &["a:1"]), Ok(()));
        assert_eq!(checked("http://a:1/", &["a:1", "b"]), Err(HostError::BadHost));
        assert_eq!(checked("http://u:p@a/", &[]), Err(HostError::BadHost));
    }
}
