//! Masks secrets, so that capsules can be passed on.
//!
//! A secret is known by the name of its header or parameter, or by its place in a URL. It is then
//! masked wherever else the request repeats it, and in the outcome if the module can know it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::{HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;

use crate::octets::Octets;
use crate::read_set::ReadSet;
use crate::request::GuestRequest;

/// Replaces a secret.
const MASK: &str = "redacted";

/// The headers whose values are masked, besides the ones named like a secret.
const HEADERS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::SET_COOKIE];

/// Parts of the names of headers and of parameters of a query whose values are masked.
const PARTS: [&str; 10] = [
    "apikey",
    "assertion",
    "credential",
    "jwt",
    "passw",
    "pwd",
    "secret",
    "session",
    "signature",
    "token",
];

/// The ends of further such names, and whole ones.
const ENDS: [&str; 4] = ["_key", "-key", "_auth", "-auth"];
const WHOLE: [&str; 3] = ["auth", "key", "sig"];

/// The minimum length of a part of a secret that is masked in other texts, in bytes: shorter
/// ones occur by chance.
const MIN_SECRET: usize = 6;

/// The parts of requests that are masked, besides the ones that are always masked: credentials
/// in headers, parameters and URLs.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    headers: Vec<HeaderName>,
}

/// Masks the secrets of a capsule.
pub(super) struct Masks<'a> {
    redaction: &'a Redaction,
    reads: &'a ReadSet,
    /// The parts that were masked.
    names: BTreeSet<String>,
    secrets: Vec<Secret>,
}

struct Secret {
    text: String,
    /// Whether the module has read it, so that its outcome may repeat it.
    is_read: bool,
}

impl Redaction {
    /// Masks the values of these headers, too.
    #[must_use]
    pub fn new(headers: Vec<HeaderName>) -> Self {
        Self { headers }
    }

    fn is_secret(&self, name: &HeaderName) -> bool {
        HEADERS.contains(name) || self.headers.contains(name) || is_secret(name.as_str())
    }
}

impl<'a> Masks<'a> {
    /// Masks the secrets of a run with these reads.
    pub(super) fn new(redaction: &'a Redaction, reads: &'a ReadSet) -> Self {
        Self { redaction, reads, names: BTreeSet::new(), secrets: Vec::new() }
    }

    /// Returns the names of the masked parts.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names.into_iter().collect()
    }

    /// Returns the target and the headers of a request.
    pub(super) fn request(&mut self, request: &GuestRequest) -> (String, Vec<(String, Octets)>) {
        let mut target = self.target(request.target.as_str());
        let headers = request.headers.iter();
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (name.to_string(), self.header(name, value))).collect();
        self.find_repeated(request);
        // The path stays: it selects the code.
        if let Some((path, query)) = target.split_once('?') {
            target = format!("{path}?{}", self.without_secrets(query, |_| true));
        }
        for (_, value) in &mut headers {
            *value = value.map_texts(|text| self.without_secrets(text, |_| true));
        }
        (target, headers)
    }

    /// Finds the secrets that the module has read in another place.
    fn find_repeated(&mut self, request: &GuestRequest) {
        let headers = request.headers.iter().filter(|(name, _)| self.reads.has_read_header(name));
        let mut read: Vec<_> =
            headers.map(|(_, value)| String::from_utf8_lossy(value.as_bytes())).collect();
        read.push(request.target.path().into());
        read.extend(request.target.query().filter(|_| self.has_read_query()).map(Cow::from));
        for secret in &mut self.secrets {
            secret.is_read |= read.iter().any(|text| text.contains(&secret.text));
        }
    }

    fn has_read_query(&self) -> bool {
        self.reads.has_query() || !self.reads.is_complete()
    }

    /// Returns the value of a header. The scheme of credentials stays: modules check it first.
    fn header(&mut self, name: &HeaderName, value: &HeaderValue) -> Octets {
        let is_read = self.reads.has_read_header(name);
        if !self.redaction.is_secret(name) {
            return Octets::new(value.as_bytes()).map_texts(|text| self.parameters(text, is_read));
        }
        self.names.insert(format!("header {name}"));
        let text = String::from_utf8_lossy(value.as_bytes());
        let (scheme, secret) = match text.split_once(' ') {
            Some((scheme, secret)) if *name == header::AUTHORIZATION => (Some(scheme), secret),
            _ => (None, &*text),
        };
        self.secret(secret, is_read);
        // The module may show the bytes that are text.
        for part in secret.split(char::REPLACEMENT_CHARACTER) {
            self.secret(part, is_read);
        }
        let masked = scheme.map_or_else(|| MASK.to_owned(), |scheme| format!("{scheme} {MASK}"));
        Octets::new(masked.as_bytes())
    }

    /// Returns the target of a request.
    fn target(&mut self, target: &str) -> String {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = self.urls(path, true).unwrap_or_else(|| {
            let segments = path.split('/').map(|segment| self.encoded_urls(segment, true));
            segments.collect::<Vec<_>>().join("/")
        });
        let Some(query) = query else { return path };
        let is_read = self.has_read_query();
        format!("{path}?{}", self.query(query, is_read))
    }

    /// Returns a text, such as a URL, without the secrets in its parameters and its credentials.
    fn parameters(&mut self, text: &str, is_read: bool) -> String {
        let (before, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (text, None),
        };
        let before = self.urls(before, is_read).unwrap_or_else(|| before.to_owned());
        match query {
            Some(query) => format!("{before}?{}", self.query(query, is_read)),
            None => before,
        }
    }

    fn query(&mut self, query: &str, is_read: bool) -> String {
        let mut parameters = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some((name, value)) if !value.is_empty() && is_secret(&decoded(name)) => {
                    self.names.insert(format!("query {name}"));
                    self.secret(value, is_read);
                    self.secret(&decoded(value), is_read);
                    self.secret(&decoded(&value.replace('+', " ")), is_read);
                    parameters.push(format!("{name}={MASK}"));
                }
                // Each for itself: `&` ends no authority of a URL.
                Some((name, value)) => {
                    parameters.push(format!("{name}={}", self.encoded_urls(value, is_read)));
                }
                None => parameters.push(self.encoded_urls(parameter, is_read)),
            }
        }
        parameters.join("&")
    }

    /// Returns a part of a target without the credentials of URLs in it, which may be encoded as a
    /// whole.
    fn encoded_urls(&mut self, text: &str, is_read: bool) -> String {
        if let Some(masked) = self.urls(text, is_read) {
            return masked;
        }
        let is_url = self.urls(&decoded(text), is_read).is_some();
        if is_url { MASK.to_owned() } else { text.to_owned() }
    }

    /// Returns a value that the module has read without the credentials of URLs; `None` if there
    /// are none.
    pub(super) fn value(&mut self, text: &str) -> Option<String> {
        self.urls(text, true)
    }

    fn urls(&mut self, text: &str, is_read: bool) -> Option<String> {
        let mut found = Vec::new();
        let masked = without_credentials(text, |credentials| found.push(credentials))?;
        self.names.insert("credentials of URLs".to_owned());
        for credentials in found {
            self.secret(credentials, is_read);
        }
        Some(masked)
    }

    /// Returns a text of the outcome without the secrets that the module has read.
    pub(super) fn outcome(&self, text: &str) -> String {
        self.without_secrets(&without_urls(text), |secret| secret.is_read)
    }

    fn without_secrets(&self, text: &str, which: impl Fn(&Secret) -> bool) -> String {
        let secrets = self.secrets.iter().filter(|secret| which(secret));
        secrets.fold(text.to_owned(), |text, secret| text.replace(&secret.text, MASK))
    }

    /// Remembers a secret: all of it, and its parts without their names.
    fn secret(&mut self, secret: &str, is_read: bool) {
        let parts = secret.split(|character: char| " ,;&:\"".contains(character));
        let values = parts.map(|part| match part.split_once('=') {
            Some((_, value)) if value.bytes().any(|byte| byte != b'=') => value,
            _ => part,
        });
        for text in [secret].into_iter().chain(values).filter(|text| text.len() >= MIN_SECRET) {
            match self.secrets.iter_mut().find(|known| known.text == text) {
                Some(known) => known.is_read |= is_read,
                None => self.secrets.push(Secret { text: text.to_owned(), is_read }),
            }
        }
        // A secret can be a part of another one.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.text.len()));
    }
}

/// Returns whether a name is that of a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
        || ENDS.iter().any(|end| name.ends_with(end))
        || WHOLE.contains(&&*name)
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Returns a text without the user names and the passwords of its URLs.
pub(super) fn without_urls(text: &str) -> String {
    without_credentials(text, |_| ()).unwrap_or_else(|| text.to_owned())
}

/// Returns a text without the user names and the passwords of its URLs, which are passed on; `None`
/// if there are none.
fn without_credentials<'a>(text: &'a str, mut found: impl FnMut(&'a str)) -> Option<String> {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        masked.push_str(before);
        let is_end = |character: char| "/?#\"\\<>".contains(character) || character.is_whitespace();
        let authority = &after[..after.find(is_end).unwrap_or(after.len())];
        match authority.rfind('@') {
            Some(end) if authority[..end] != *MASK => {
                found(&authority[..end]);
                masked.push_str(MASK);
                rest = &after[end..];
            }
            _ => {
                masked.push_str(authority);
                rest = &after[authority.len()..];
            }
        }
    }
    masked.push_str(rest);
    (masked != text).then_some(masked)
}

#[cfg(test)]
mod tests {
    use super::{Masks, Redaction, without_credentials};
    use crate::read_set::{ReadSet, TrackedSnapshot};
    use crate::request::GuestRequest;
    use http::{HeaderMap, HeaderName, HeaderValue, Method};
    use relayer_rest_state::StatePublisher;
    use std::sync::Arc;

    fn request(target: &str, headers: &[(&'static str, &[u8])]) -> Arc<GuestRequest> {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        });
        let headers: HeaderMap = headers.collect();
        Arc::new(GuestRequest::new(Method::GET, target.parse().unwrap(), headers))
    }

    /// Returns the reads of a module that reads the query and all headers of a request, or neither.
    fn reads(request: &Arc<GuestRequest>, has_read: bool) -> ReadSet {
        let snapshot = StatePublisher::new().reader().snapshot();
        let mut tracked = TrackedSnapshot::new(snapshot, Arc::clone(request));
        if has_read {
            tracked.query();
            for name in request.headers.keys() {
                tracked.header(name);
            }
        }
        tracked.reads().clone()
    }

    /// Returns the masked target and the masked values of the headers, the masked text of the
    /// outcome, and the names of the masked parts.
    fn masked(
        target: &str,
        headers: &[(&'static str, &[u8])],
        outcome: &str,
        has_read: bool,
    ) -> (String, Vec<Vec<u8>>, String, Vec<String>) {
        let redaction = Redaction::new(vec![HeaderName::from_static("x-mine")]);
        let request = request(target, headers);
        let reads = reads(&request, has_read);
        let mut masks = Masks::new(&redaction, &reads);
        let (target, headers) = masks.request(&request);
        let headers = headers.iter().map(|(_, value)| value.bytes().unwrap()).collect();
        let outcome = masks.outcome(outcome);
        (target, headers, outcome, masks.into_names())
    }

    fn masked_target(target: &str) -> String {
        masked(target, &[], "", true).0
    }

    #[test]
    fn headers_are_masked_by_name() {
        let headers: [(_, &[u8]); 9] = [
            ("authorization", b"Bearer abcdef.1"),
            ("cookie", b"status=secret-1; b=2"),
            ("x-mine", b"mine"),
            ("accept", b"text/html"),
            ("private-token", b"secret-2"),
            ("cf-access-jwt-assertion", b"secret-3"),
            ("x-api-key", b"secret-4"),
            ("x-amz-security-token", b"secret-5"),
            ("author", b"somebody"),
        ];
        let outcome = "status: no token abcdef.1, secret-1, secret-2. Bearer abcdef.1, somebody";
        let (_, values, outcome, names) = masked("/", &headers, outcome, true);
        let is_masked = values.iter().map(|value| value.ends_with(b"redacted"));
        let expected = [true, true, true, false, true, true, true, true, false];
        assert_eq!(is_masked.collect::<Vec<_>>(), expected);
        assert_eq!(values[0], b"Bearer redacted");
        let expected = "status: no token redacted, redacted, redacted. Bearer redacted, somebody";
        assert_eq!(outcome, expected);
        assert_eq!(names.len(), 7, "{names:?}");
    }

    #[test]
    fn a_secret_that_the_module_has_not_read_stays_in_its_outcome() {
        let headers: [(_, &[u8]); 1] = [("cookie", b"kind=database; session=chain-0")];
        let (_, _, outcome, _) = masked("/?token=version", &headers, "version, chain-0", false);
        assert_eq!(outcome, "version, chain-0");
    }

    #[test]
    fn a_secret_that_the_module_has_read_elsewhere_is_masked_in_its_outcome() {
        let redaction = Redaction::default();
        let request = request("/a?token=secret-1", &[("x-note", b"see secret-1")]);
        let snapshot = StatePublisher::new().reader().snapshot();
        let mut tracked = TrackedSnapshot::new(snapshot, Arc::clone(&request));
        tracked.header(&HeaderName::from_static("x-note"));
        let mut masks = Masks::new(&redaction, tracked.reads());
        masks.request(&request);
        assert_eq!(masks.outcome("no: secret-1"), "no: redacted");
    }

    #[test]
    fn secrets_are_masked_beside_bytes_that_are_not_text() {
        let redaction = Redaction::default();
        let headers: [(_, &[u8]); 2] = [
            ("cookie", b"first-1\xff;second-2"),
            ("x-note", b"\xffsee https://u:secret-3@h second-2"),
        ];
        let request = request("/", &headers);
        let reads = reads(&request, true);
        let mut masks = Masks::new(&redaction, &reads);
        let (_, values) = masks.request(&request);
        let note = values[1].1.bytes().unwrap();
        assert_eq!(note, b"\xffsee https://redacted@h redacted");
        let octets = crate::octets::Octets::new(b"first-1\xfe\xffno second-2\xff");
        let masked = octets.map_texts(|text| masks.outcome(text)).bytes().unwrap();
        assert_eq!(masked, b"redacted\xfe\xffno redacted\xff");
    }

    #[test]
    fn parameters_are_masked_by_name() {
        for (target, expected) in [
            ("/a?Token=1&limit=2", "/a?Token=redacted&limit=2"),
            ("/a?access_token=a=b&c", "/a?access_token=redacted&c"),
            (
                "/a?api%5Fkey=1&access_key=2&pwd=3",
                "/a?api%5Fkey=redacted&access_key=redacted&pwd=redacted",
            ),
            ("/a?key=&tokens", "/a?key=&tokens"),
            ("/token=1", "/token=1"),
            ("/a?next=http://h&mail=a@b", "/a?next=http://h&mail=a@b"),
            ("/http://u:p@h/?a", "/http://redacted@h/?a"),
            ("/a?node=https%3A%2F%2Fu%3Apw%40h&b=%2F", "/a?node=redacted&b=%2F"),
            ("/via/https%3A%2F%2Fu%3Apw%40h/b", "/via/redacted/b"),
            ("/a?token=secret-1&copy=secret-1", "/a?token=redacted&copy=redacted"),
            ("/secret-1?token=secret-1", "/secret-1?token=redacted"),
        ] {
            assert_eq!(masked_target(target), expected);
        }
        let (_, _, outcome, _) = masked("/?token=first+second", &[], "no: first second", true);
        assert_eq!(outcome, "no: redacted");
    }

    #[test]
    fn a_secret_is_masked_in_other_headers_too() {
        let headers: [(_, &[u8]); 2] = [
            ("x-forwarded-uri", b"/a?token=secret-1"),
            ("referer", b"https://first:secret-2@h/?token=secret-3&next=secret-1"),
        ];
        let (_, values, outcome, names) =
            masked("/a?token=secret-1", &headers, "secret-2 secret-3 h", true);
        assert_eq!(values[0], b"/a?token=redacted");
        assert_eq!(values[1], b"https://redacted@h/?token=redacted&next=redacted");
        assert_eq!(outcome, "redacted redacted h");
        assert_eq!(names, ["credentials of URLs", "query token"]);
    }

    #[test]
    fn credentials_of_urls_are_masked() {
        for (text, masked) in [
            (r#"{"a":"https://u:p@h/x","b":"c@d"}"#, r#"{"a":"https://redacted@h/x","b":"c@d"}"#),
            ("see http://token@h and ws://h/a@b", "see http://redacted@h and ws://h/a@b"),
        ] {
            assert_eq!(without_credentials(text, |_| ()).unwrap(), masked);
            assert_eq!(without_credentials(masked, |_| ()), None);
        }
        assert_eq!(without_credentials("https://h:1/", |_| ()), None);
    }

    #[test]
    fn the_credentials_of_read_values_are_masked_elsewhere_too() {
        let redaction = Redaction::default();
        let reads = ReadSet::default();
        let mut masks = Masks::new(&redaction, &reads);
        let value = masks.value(r#"{"grpc":"http://secret-4@h"}"#).unwrap();
        assert_eq!(value, r#"{"grpc":"http://redacted@h"}"#);
        assert_eq!(masks.outcome("secret-4 h"), "redacted h");
    }
}
