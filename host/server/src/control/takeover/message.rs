//! The messages of a takeover, and their limits.

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use relayer_rest_sandbox::GuestRequest;
use serde::{Deserialize, Serialize};

use crate::registry::{HotRequest, Mount};

/// The version of the protocol.
pub(super) const PROTOCOL: u32 = 1;

/// The maximum number of hot requests of a mount, and of all mounts.
const MAX_REQUESTS_OF_MOUNT: usize = 100;
const MAX_REQUESTS: usize = 500;

/// Requests with a longer target or longer headers, in bytes, are left out: 500 of them would
/// not fit into a message.
const MAX_TARGET: usize = 1024;
const MAX_HEADERS: usize = 2048;

/// A message from the new process.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromSuccessor {
    /// The first message.
    Hello { protocol: u32, version: String },
    /// The new process accepts connections.
    Ready,
    /// The new process has received `handed-over`.
    Taken,
}

/// A message from the old process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromServer {
    /// The state of the old process, with the descriptors of its sockets.
    Offer(Offer),
    /// The sockets belong to the new process alone from now on.
    HandedOver,
    /// The old process goes on, for this reason.
    Aborted(String),
}

/// The sockets and the state of the old process. Fields of later versions are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Offer {
    pub(super) version: String,
    /// A description of each socket or group, in the order of the passed descriptors.
    pub(super) sockets: Vec<SocketOffer>,
    /// Whether the sockets of clients come from the service manager, not from the settings.
    pub(super) is_passed: bool,
    /// The timeout of the service manager's watchdog, in microseconds.
    pub(super) watchdog: Option<u64>,
    /// Whether the state of the relayer is known.
    pub(super) is_ready: bool,
    pub(super) mounts: Vec<MountOffer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SocketOffer {
    pub(super) role: Role,
    /// The file of a Unix socket that the server has created.
    pub(super) path: Option<PathBuf>,
    /// The number of descriptors, if it is a group of TCP sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<usize>,
}

/// The clients of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The clients of the API.
    Client,
    /// The owner, on the control socket.
    Control,
    /// The clients of the admin listener.
    Admin,
}

/// The module and the most frequent requests of a mount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MountOffer {
    /// The path.
    pub mount: String,
    /// The name of the module.
    pub name: String,
    /// The digest of the active module.
    pub digest: String,
    /// The most frequent requests with a cached response.
    requests: Vec<RequestOffer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RequestOffer {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    status: u16,
    hits: u64,
}

impl MountOffer {
    /// Describes the mounts that have a module, the hottest requests of each up to their limits.
    pub(super) fn of<'a>(mounts: impl Iterator<Item = &'a Mount>) -> Vec<Self> {
        let mut rest = MAX_REQUESTS;
        let offers = mounts.filter_map(|mount| {
            let module = mount.module()?;
            let hot = mount.hot_requests(MAX_REQUESTS_OF_MOUNT.min(rest));
            let requests: Vec<_> = hot.iter().filter_map(RequestOffer::new).collect();
            rest -= requests.len();
            Some(Self {
                mount: mount.path().to_string(),
                name: module.name().to_owned(),
                digest: module.digest().to_string(),
                requests,
            })
        });
        offers.collect()
    }

    /// Removes requests beyond the limits, which another version may exceed.
    pub(super) fn limit(offers: &mut [Self]) {
        let mut rest = MAX_REQUESTS;
        for offer in offers {
            offer.requests.truncate(MAX_REQUESTS_OF_MOUNT.min(rest));
            rest -= offer.requests.len();
        }
    }

    /// Returns the most frequent requests, without invalid ones.
    #[must_use]
    pub fn hot_requests(&self) -> Vec<HotRequest> {
        let requests = self.requests.iter().take(MAX_REQUESTS_OF_MOUNT);
        requests.filter_map(RequestOffer::request).collect()
    }
}

impl RequestOffer {
    /// Describes a request, unless it is too long or its headers are not text.
    fn new(HotRequest { request, status, hits }: &HotRequest) -> Option<Self> {
        let GuestRequest { method, target, headers, .. } = &**request;
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.to_string(), value.to_str().ok()?.to_owned()))
        };
        let headers = headers.iter().map(text).collect::<Option<Vec<_>>>()?;
        let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = target.as_str().len() <= MAX_TARGET && size <= MAX_HEADERS;
        fits.then(|| Self {
            method: method.to_string(),
            target: target.to_string(),
            headers,
            status: status.as_u16(),
            hits: *hits,
        })
    }

    /// Returns the request, if it is one that has no effect.
    fn request(&self) -> Option<HotRequest> {
        let method: Method = self.method.parse().ok()?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: HeaderName = name.parse().ok()?;
            headers.try_append(name, HeaderValue::try_from(value).ok()?).ok()?;
        }
        let target = self.target.parse().ok()?;
        let status = StatusCode::from_u16(self.status).ok()?;
        let request = GuestRequest::new(method, target, headers);
        request.method.is_safe().then(|| HotRequest {
            request: request.into(),
            status,
            hits: self.hits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FromServer, MountOffer, RequestOffer};

    fn offer(method: &str, target: &str, header: (&str, &str), status: u16) -> RequestOffer {
        let (name, value) = header;
        RequestOffer {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: vec![(name.to_owned(), value.to_owned())],
            status,
            hits: 3,
        }
    }

    #[test]
    fn requests_survive_their_description() {
        let original = offer("GET", "/state?a=%20", ("accept", "a, \"b\""), 404);
        let described = RequestOffer::new(&original.request().unwrap()).unwrap();
        assert_eq!(described, original);
    }

    #[test]
    fn long_requests_are_not_described() {
        for long in [
            offer("GET", &format!("/{}", "x".repeat(1024)), ("a", "b"), 200),
            offer("GET", "/", ("a", &"b".repeat(2048)), 200),
        ] {
            assert_eq!(RequestOffer::new(&long.request().unwrap()), None);
        }
    }

    #[test]
    fn invalid_requests_are_left_out() {
        for invalid in [
            offer("POST", "/clear_packets", ("a", "b"), 200),
            offer("G T", "/", ("a", "b"), 200),
            offer("GET", "/ x", ("a", "b"), 200),
            offer("GET", "/", ("a b", "b"), 200),
            offer("GET", "/", ("a", "b\r\nc: d"), 200),
            offer("GET", "/", ("a", "b"), 99),
        ] {
            assert!(invalid.request().is_none(), "{invalid:?}");
        }
        let many = vec![offer("GET", "/", ("a", "b"), 200); 1_000];
        let (mount, name, digest) = ("/".into(), "api".into(), String::new());
        let mount = MountOffer { mount, name, digest, requests: many };
        assert_eq!(mount.hot_requests().len(), 100);
    }

    #[test]
    fn messages_of_other_kinds_are_rejected() {
        for invalid in ["null", "{}", "\"ready\"", "{\"offer\":{}}", "{\"offer\":{\"sockets\":1}}"]
        {
            serde_json::from_str::<FromServer>(invalid).unwrap_err();
        }
    }
}
