//! Whether a request waits for a response, or for all of its versions.

use std::time::Duration;

use hyper::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};

use crate::http::quality::quality;
use crate::response::list;

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The maximum number of bytes of a header that are read: each request reads them.
const MAX_LENGTH: usize = 1 << 10;

/// The responses that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Interest {
    /// The current response.
    Now,
    /// The response as soon as it differs from the one that the client has, or after this time.
    Change(Duration),
    /// A stream of all versions of the response, as patches if these are shorter.
    Stream { patches: bool },
}

impl Interest {
    /// Returns whether a request may wait.
    pub(in crate::http) fn waits(self) -> bool {
        !matches!(self, Self::Now | Self::Change(Duration::ZERO))
    }

    /// Returns the interest of a request. If the client prefers a stream, that is removed from
    /// `accept`: the module responds as to other requests, and the host makes the stream.
    pub(in crate::http) fn take_from<B>(request: &mut Request<B>) -> Self {
        let is_get = *request.method() == Method::GET;
        let has_any = request.headers().keys().any(|name| *name == ACCEPT || *name == PREFER);
        if !has_any || !is_get && *request.method() != Method::HEAD {
            return Self::Now;
        }
        let is_stream = accepts_events(request.headers());
        if is_stream {
            hide_events(request.headers_mut());
        }
        let headers = request.headers();
        if is_stream && is_get {
            let patches = preferences(headers)
                .any(|(name, value)| name.eq_ignore_ascii_case("patch") && value.is_empty());
            return Self::Stream { patches };
        }
        // RFC 7240, 2: of two equal preferences, the first one counts.
        let wait = preferences(headers).find(|(name, _)| name.eq_ignore_ascii_case("wait"));
        match wait.and_then(|(_, value)| value.parse().ok()) {
            Some(seconds) => Self::Change(Duration::from_secs(seconds)),
            None => Self::Now,
        }
    }
}

/// Returns whether a client prefers a stream of events to all other types that it names.
fn accepts_events(headers: &HeaderMap) -> bool {
    let mut events = None;
    let mut others = 0;
    for range in values(headers, ACCEPT).flat_map(|value| value.split(',')) {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let quality = quality(parameters);
        if is_events(name) {
            events = events.max(Some(quality));
        } else if !name.trim().is_empty() {
            others = others.max(quality);
        }
    }
    events.is_some_and(|quality| quality > 0 && quality >= others)
}

/// Returns whether a media range is the type of a stream, with parameters or without.
fn is_events(range: &str) -> bool {
    let name = range.split(';').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("text/event-stream")
}

/// Removes the type of a stream from `accept`.
fn hide_events(headers: &mut HeaderMap) {
    let ranges = list::members(headers, ACCEPT).filter(|range| !range.is_empty());
    let others: Vec<_> = ranges.filter(|range| !is_events(range)).collect();
    match HeaderValue::try_from(others.join(", ")) {
        Ok(others) if !others.is_empty() => drop(headers.insert(ACCEPT, others)),
        _ => drop(headers.remove(ACCEPT)),
    }
}

/// Returns the preferences of a request, with their values; an empty one for none.
fn preferences(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    values(headers, PREFER).flat_map(|value| value.split(',')).map(|preference| {
        let preference = preference.split(';').next().unwrap_or_default();
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        (name.trim(), value.trim().trim_matches('"'))
    })
}

/// Returns the values of a header that are text, up to a limit of bytes.
fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(text);
    let mut left = MAX_LENGTH;
    values.take_while(move |value| {
        let is_short = value.len() <= left;
        left = left.saturating_sub(value.len());
        is_short
    })
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::Interest::{self, Change, Now, Stream};
    use hyper::Request;
    use std::time::Duration;

    fn interest(method: &str, headers: &[(&str, &str)]) -> Interest {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Interest::take_from(&mut request.body(()).unwrap())
    }

    #[test]
    fn a_preference_to_wait_is_read() {
        let wait = |seconds| Change(Duration::from_secs(seconds));
        for (value, expected) in [
            ("wait=30", wait(30)),
            ("Wait=30", wait(30)),
            ("respond-async, wait=10", wait(10)),
            ("return=minimal;foo=bar , wait = \"5\" ;x", wait(5)),
            ("wait=1, wait=2", wait(1)),
            ("wait=0", wait(0)),
            ("wait", Now),
            ("wait=", Now),
            ("wait=-1", Now),
            ("wait=1.5", Now),
            ("wait=x", Now),
            ("waits=1", Now),
            ("", Now),
        ] {
            assert_eq!(interest("GET", &[("prefer", value)]), expected, "{value}");
            assert_eq!(interest("HEAD", &[("prefer", value)]), expected, "{value}");
            assert_eq!(interest("POST", &[("prefer", value)]), Now, "{value}");
        }
        assert_eq!(interest("GET", &[("prefer", "a"), ("prefer", "wait=3")]), wait(3));
        let long = format!("{}, wait=3", "a".repeat(super::MAX_LENGTH));
        assert_eq!(interest("GET", &[("prefer", &long)]), Now);
    }

    #[test]
    fn a_stream_is_sent_to_clients_that_prefer_it() {
        for (accept, is_stream) in [
            ("text/event-stream", true),
            ("Text/Event-Stream", true),
            ("text/event-stream, */*;q=0.1", true),
            ("application/json, text/event-stream", true),
            ("application/json;q=0.9, text/event-stream;q=0.8", false),
            ("text/event-stream;q=0", false),
            ("text/event-stream;q=0.001", true),
            ("text/event-stream;q=2", false),
            ("text/*", false),
            ("*/*", false),
            ("", false),
        ] {
            let expected = if is_stream { Stream { patches: false } } else { Now };
            assert_eq!(interest("GET", &[("accept", accept)]), expected, "{accept}");
            assert_eq!(interest("HEAD", &[("accept", accept)]), Now, "{accept}");
        }
    }

    #[test]
    fn a_module_does_not_see_that_the_client_prefers_a_stream() {
        for (accept, expected) in [
            ("text/event-stream", None),
            ("Text/Event-Stream;q=0.5", None),
            ("application/json, text/event-stream, a/b;q=0.5", Some("application/json, a/b;q=0.5")),
            (
                "application/json, text/event-stream;q=0.1",
                Some("application/json, text/event-stream;q=0.1"),
            ),
            ("*/*", Some("*/*")),
        ] {
            for (method, is_hidden) in [("GET", true), ("HEAD", true), ("POST", false)] {
                let request = Request::builder().method(method).header("accept", accept);
                let mut request = request.body(()).unwrap();
                Interest::take_from(&mut request);
                let value = request.headers().get("accept").map(|value| value.to_str().unwrap());
                let expected = if is_hidden { expected } else { Some(accept) };
                assert_eq!(value, expected, "{method} {accept}");
            }
        }
    }

    #[test]
    fn a_stream_has_patches_if_the_client_prefers_them() {
        let accept = ("accept", "text/event-stream");
        for (prefer, patches) in
            [("patch", true), ("wait=1, Patch", true), ("patch=1", false), ("patches", false)]
        {
            let expected = Stream { patches };
            assert_eq!(interest("GET", &[accept, ("prefer", prefer)]), expected, "{prefer}");
        }
    }
}
