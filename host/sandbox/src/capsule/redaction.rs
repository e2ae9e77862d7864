//! Masks secrets, so that capsules can be passed on.

use std::collections::BTreeSet;

use http::{HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;

/// Replaces a secret.
const MASK: &str = "redacted";

/// The headers whose values are masked.
const HEADERS: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::PROXY_AUTHORIZATION,
    header::SET_COOKIE,
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-csrf-token"),
    HeaderName::from_static("x-xsrf-token"),
];

/// Parts of the names of parameters of a query whose values are masked.
const PARAMETERS: [&str; 7] =
    ["apikey", "api_key", "api-key", "credential", "passw", "secret", "token"];

/// Names of further such parameters.
const WHOLE_PARAMETERS: [&str; 4] = ["auth", "key", "sig", "signature"];

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
    /// The parts that were masked.
    names: BTreeSet<String>,
    /// The secrets, which the texts of the outcome may repeat.
    secrets: Vec<String>,
}

impl Redaction {
    /// Masks the values of these headers, too.
    #[must_use]
    pub fn new(headers: Vec<HeaderName>) -> Self {
        Self { headers }
    }
}

impl<'a> Masks<'a> {
    pub(super) fn new(redaction: &'a Redaction) -> Self {
        Self { redaction, names: BTreeSet::new(), secrets: Vec::new() }
    }

    /// Returns the names of the masked parts.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names.into_iter().collect()
    }

    /// Returns the value of a header. The scheme of credentials stays: modules check it first.
    pub(super) fn header(&mut self, name: &HeaderName, value: &HeaderValue) -> Vec<u8> {
        if !HEADERS.contains(name) && !self.redaction.headers.contains(name) {
            let masked = value.to_str().ok().and_then(|text| self.urls(text));
            return masked.map_or_else(|| value.as_bytes().to_vec(), String::into_bytes);
        }
        self.names.insert(format!("header {name}"));
        let text = String::from_utf8_lossy(value.as_bytes());
        let (scheme, secret) = match text.split_once(' ') {
            Some((scheme, secret)) if *name == header::AUTHORIZATION => (Some(scheme), secret),
            _ => (None, &*text),
        };
        self.secret(secret);
        // The module may show the bytes that are text.
        for part in secret.split(char::REPLACEMENT_CHARACTER) {
            self.secret(part);
        }
        let masked = scheme.map_or_else(|| MASK.to_owned(), |scheme| format!("{scheme} {MASK}"));
        masked.into_bytes()
    }

    /// Returns the target of a request.
    pub(super) fn target(&mut self, target: &str) -> String {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = self.urls(path).unwrap_or_else(|| path.to_owned());
        let Some(query) = query else { return path };
        let mut parameters = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some((name, value)) if is_secret(name) && !value.is_empty() => {
                    self.names.insert(format!("query {name}"));
                    self.secret(value);
                    self.secret(&percent_decode_str(value).decode_utf8_lossy());
                    parameters.push(format!("{name}={MASK}"));
                }
                // Each for itself: `&` ends no authority of a URL.
                _ => parameters.push(self.urls(parameter).unwrap_or_else(|| parameter.to_owned())),
            }
        }
        format!("{path}?{}", parameters.join("&"))
    }

    /// Returns a text without the credentials of URLs; `None` if there are none.
    pub(super) fn urls(&mut self, text: &str) -> Option<String> {
        let mut found = Vec::new();
        let masked = without_credentials(text, |credentials| found.push(credentials))?;
        self.names.insert("credentials of URLs".to_owned());
        for credentials in found {
            self.secret(credentials);
        }
        Some(masked)
    }

    /// Returns a text without the secrets of the request.
    pub(super) fn text(&self, text: &str) -> String {
        let text = without_credentials(text, |_| ()).unwrap_or_else(|| text.to_owned());
        self.secrets.iter().fold(text, |text, secret| text.replace(secret, MASK))
    }

    /// Remembers a secret: all of it, and its parts.
    fn secret(&mut self, secret: &str) {
        let is_separator = |character: char| " ,;=&:".contains(character);
        let parts = [secret].into_iter().chain(secret.split(is_separator));
        let parts = parts.filter(|part| part.len() >= MIN_SECRET);
        for part in parts {
            if !self.secrets.iter().any(|known| known == part) {
                self.secrets.push(part.to_owned());
            }
        }
        // A secret can be a part of another one.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }
}

fn is_secret(parameter: &str) -> bool {
    let name = parameter.to_ascii_lowercase();
    WHOLE_PARAMETERS.contains(&&*name) || PARAMETERS.iter().any(|part| name.contains(part))
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
    use crate::octets::Octets;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn headers_are_masked_by_name() {
        let redaction = Redaction::new(vec![HeaderName::from_static("x-mine")]);
        let mut masks = Masks::new(&redaction);
        let mut header = |name, value| {
            let value = HeaderValue::from_static(value);
            String::from_utf8(masks.header(&HeaderName::from_static(name), &value)).unwrap()
        };
        assert_eq!(header("authorization", "Bearer abcdef.1"), "Bearer redacted");
        assert_eq!(header("cookie", "a=secret-1; b=2"), "redacted");
        assert_eq!(header("x-mine", "mine"), "redacted");
        assert_eq!(header("accept", "text/html"), "text/html");
        assert_eq!(masks.text("no token abcdef.1, secret-1"), "no token redacted, redacted");
        assert_eq!(masks.text("Bearer abcdef.1"), "Bearer redacted");
        assert_eq!(masks.into_names(), ["header authorization", "header cookie", "header x-mine"]);
    }

    #[test]
    fn secrets_are_masked_beside_bytes_that_are_not_text() {
        let redaction = Redaction::default();
        let mut masks = Masks::new(&redaction);
        let value = HeaderValue::from_bytes(b"first-1\xff;second-2").unwrap();
        masks.header(&http::header::COOKIE, &value);
        let octets = Octets::new(b"first-1\xfe\xffno second-2\xff");
        let masked = octets.map_texts(|text| masks.text(text)).bytes().unwrap();
        assert_eq!(masked, b"redacted\xfe\xffno redacted\xff");
    }

    #[test]
    fn parameters_are_masked_by_name() {
        let redaction = Redaction::default();
        let mut masks = Masks::new(&redaction);
        for (target, masked) in [
            ("/a?Token=1&limit=2", "/a?Token=redacted&limit=2"),
            ("/a?access_token=a=b&c", "/a?access_token=redacted&c"),
            ("/a?key=&tokens", "/a?key=&tokens"),
            ("/token=1", "/token=1"),
            ("/a?next=http://h&mail=a@b", "/a?next=http://h&mail=a@b"),
            ("/http://u:p@h/?a", "/http://redacted@h/?a"),
        ] {
            assert_eq!(masks.target(target), masked);
        }
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
    fn the_credentials_of_urls_are_masked_elsewhere_too() {
        let redaction = Redaction::default();
        let mut masks = Masks::new(&redaction);
        let referer = HeaderValue::from_static("https://first:secret-1@h/");
        let masked = masks.header(&http::header::REFERER, &referer);
        assert_eq!(masked, b"https://redacted@h/");
        let target = masks.target("/a?node=https://u:secret-2@h&token=secret%2D3");
        assert_eq!(target, "/a?node=https://redacted@h&token=redacted");
        let value = masks.urls(r#"{"grpc":"http://secret-4@h"}"#).unwrap();
        assert_eq!(value, r#"{"grpc":"http://redacted@h"}"#);
        assert_eq!(
            masks.text("secret-1 secret-2 secret-3 secret-4 h"),
            "redacted redacted redacted redacted h"
        );
        assert_eq!(masks.into_names(), ["credentials of URLs", "query token"]);
    }
}
