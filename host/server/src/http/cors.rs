//! Requests of web pages from other origins (CORS): the settings, and the headers of responses.
//!
//! Without settings, browsers do not let a page of another origin read responses.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::outgoing::{HttpResponse, Outgoing};

/// The maximum number of origins: each request is compared with all of them.
const MAX_ORIGINS: usize = 256;

/// The headers of responses that a page may read, beyond those that each page may.
const EXPOSED: &str = "age, etag, preference-applied, retry-after, warning, x-relayer-generation, x-relayer-module, x-relayer-source, x-request-id";
/// The methods and the headers of requests that a page may use. Commands are not among them.
const METHODS: &str = "GET, HEAD";
const HEADERS: &str =
    "if-match, if-none-match, last-event-id, prefer, x-relayer-min-generation, x-request-id";
/// The time for which a browser may keep a preflight, in seconds.
const MAX_AGE: &str = "3600";

/// The section `[cors]`: the origins of web pages that may read responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// The origins, such as `https://dashboard.example`, or `*` for all. Default: none; up to
    /// 256.
    #[serde(deserialize_with = "origins")]
    pub origins: Vec<AllowedOrigin>,
}

/// An origin of web pages, or all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AllowedOrigin(HeaderValue);

/// The origins of a server that allows some.
#[derive(Debug, Clone)]
pub(super) struct Cors {
    origins: Vec<HeaderValue>,
    allows_all: bool,
}

fn origins<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<AllowedOrigin>, D::Error> {
    let origins = Vec::deserialize(deserializer)?;
    if origins.len() <= MAX_ORIGINS {
        return Ok(origins);
    }
    let message = format!("{} origins; expected up to {MAX_ORIGINS}", origins.len());
    Err(serde::de::Error::custom(message))
}

impl Serialize for AllowedOrigin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.to_str().unwrap_or_default())
    }
}

impl TryFrom<String> for AllowedOrigin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_origin = text == "*"
            || (!text.contains('*')
                && Url::parse(&text).is_ok_and(|url| url.origin().ascii_serialization() == text));
        match HeaderValue::try_from(&text) {
            Ok(value) if is_origin => Ok(Self(value)),
            _ => Err(format!(
                "{text:?} is not an origin; expected scheme, host and port as browsers send them, such as \"https://dashboard.example\" or \"http://localhost:8080\", or \"*\""
            )),
        }
    }
}

impl Cors {
    /// Returns the origins of the settings, if there are any.
    pub(super) fn new(config: CorsConfig) -> Option<Self> {
        let origins: Vec<_> = config.origins.into_iter().map(|origin| origin.0).collect();
        let allows_all = origins.iter().any(|origin| origin == "*");
        (!origins.is_empty()).then_some(Self { origins, allows_all })
    }

    /// Returns the response to a preflight, which asks whether a page may send a request.
    pub(super) fn preflight<B>(&self, request: &Request<B>) -> Option<HttpResponse> {
        let headers = request.headers();
        let is_preflight = *request.method() == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight {
            return None;
        }
        let mut response = hyper::Response::new(Outgoing::new(bytes::Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        if self.allowed(headers).is_some() {
            for (name, value) in [
                (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
                (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            ] {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
        }
        Some(response)
    }

    /// Adds the headers with which a browser lets a page of an allowed origin read a response.
    pub(super) fn add(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if !self.allows_all {
            response.append(VARY, HeaderValue::from_static("origin"));
        }
        let Some(origin) = self.allowed(request) else { return };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }

    /// Returns the origin to allow, if the request has an origin that is allowed.
    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.allows_all {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.iter().find(|allowed| *allowed == origin).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::AllowedOrigin;

    #[test]
    fn an_origin_has_no_path() {
        for (text, is_origin) in [
            ("*", true),
            ("https://dashboard.example", true),
            ("http://localhost:8080", true),
            ("http://[::1]:8080", true),
            ("https://dashboard.example/", false),
            ("https://dashboard.example:443", false),
            ("https://Dashboard.example", false),
            ("dashboard.example", false),
            ("null", false),
            ("https://*.example", false),
            ("", false),
        ] {
            assert_eq!(AllowedOrigin::try_from(text.to_owned()).is_ok(), is_origin, "{text}");
        }
    }
}
