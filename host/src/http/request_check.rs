//! What is looked at before a request is anybody's: whether it is one, and
//! whether it is too large.

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::HOST;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Version};
use tokio::time::timeout;

use super::error::HostError;
use super::limits::HttpLimits;

/// Looks at a request's head.
pub(super) fn head<B>(request: &Request<B>, limits: &HttpLimits) -> Result<(), HostError> {
    let target = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    if target.len() as u64 > limits.target.as_u64() {
        return Err(HostError::TargetTooLong);
    }
    if request.headers().len() > limits.headers as usize {
        return Err(HostError::HeadersTooMany);
    }
    if request.version() == Version::HTTP_11 {
        // RFC 9112, 3.2: one, and not what no authority is.
        let mut hosts = request.headers().get_all(HOST).iter();
        let is_host =
            hosts.next().is_some_and(|host| host.as_bytes().iter().copied().all(is_of_a_host));
        if !is_host || hosts.next().is_some() {
            return Err(HostError::BadHost);
        }
    }
    Ok(())
}

/// Whether a name or an address with a port may have this byte.
fn is_of_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(&byte)
}

/// Reads what a request has for a body, and forgets it: no route wants one.
pub(super) async fn discard(body: Incoming, limits: &HttpLimits) -> Result<(), HostError> {
    let most = limits.body.as_u64();
    if body.size_hint().lower() > most {
        return Err(HostError::BodyTooLarge);
    }
    let mut body = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX));
    let read = async {
        while let Some(frame) = body.frame().await {
            // A connection that is gone is closed by who serves it.
            frame.map_err(|_| HostError::BodyTooLarge)?;
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
        assert_eq!(checked(Version::HTTP_2, &[]), Ok(()));
    }
}
