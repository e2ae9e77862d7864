//! Preconditions of requests (RFC 9110, 13): whether a client has the current response
//! already, and whether the response is the one that the client expects.

use std::time::SystemTime;

use hyper::header::{
    ETAG, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED,
};
use hyper::{HeaderMap, Method};

/// The maximum number of bytes of a list of validators that are read: each hit reads them,
/// and HTTP/2 repeats a long list for a few bytes. The rest has no effect.
const MAX_LENGTH: usize = 4 << 10;

static PRECONDITIONS: [HeaderName; 4] =
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

/// The result of evaluating the preconditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The response is sent.
    Proceed,
    /// The client has the response already: 304.
    NotModified,
    /// The response is not the one that the client expects: 412.
    Failed,
}

/// Evaluates the preconditions of a request, whose response has the headers `response` and
/// would be a success, in the order of RFC 9110, 13.2.2.
///
/// An invalid field has no effect, and the date field that it overrides has none either.
pub(super) fn evaluate(method: &Method, request: &HeaderMap, response: &HeaderMap) -> Outcome {
    // OPTIONS does not select a representation.
    let has_any = request.keys().any(|name| PRECONDITIONS.contains(name));
    if !has_any || *method == Method::OPTIONS {
        return Outcome::Proceed;
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if request.contains_key(IF_MATCH) {
        if matches(request, IF_MATCH, response, is_same) == Some(false) {
            return Outcome::Failed;
        }
    } else if is_modified_since(request, IF_UNMODIFIED_SINCE, response) == Some(true) {
        return Outcome::Failed;
    }
    if request.contains_key(IF_NONE_MATCH) {
        if matches(request, IF_NONE_MATCH, response, is_equivalent) == Some(true) {
            return if is_read { Outcome::NotModified } else { Outcome::Failed };
        }
    } else if is_read && is_modified_since(request, IF_MODIFIED_SINCE, response) == Some(false) {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// Returns whether the client names the response's validator; `None` if it names none.
fn matches(
    request: &HeaderMap,
    field: HeaderName,
    response: &HeaderMap,
    compare: fn(&[u8], &[u8]) -> bool,
) -> Option<bool> {
    let etag = response.get(ETAG).map(HeaderValue::as_bytes);
    let mut outcome = None;
    let mut left = MAX_LENGTH;
    for value in request.get_all(field) {
        let value = value.as_bytes();
        let value = &value[..value.len().min(left)];
        left -= value.len();
        let value = value.trim_ascii();
        // `*` matches any response, even one without a validator.
        if value == b"*" {
            return Some(true);
        }
        for tag in tags(value) {
            if etag.is_some_and(|etag| compare(tag, etag)) {
                return Some(true);
            }
            outcome = Some(false);
        }
    }
    outcome
}

/// Returns whether the response was modified after the date of a field; `None` if one of
/// the two has no valid date, or the field occurs several times.
fn is_modified_since(request: &HeaderMap, field: HeaderName, response: &HeaderMap) -> Option<bool> {
    let since = date(request, field)?;
    Some(date(response, LAST_MODIFIED)? > since)
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

/// Compares two validators strongly: they are identical, and not weak.
fn is_same(tag: &[u8], other: &[u8]) -> bool {
    tag == other && tag.starts_with(b"\"")
}

/// Compares two validators weakly: they are identical except for the mark of a weak one.
fn is_equivalent(tag: &[u8], other: &[u8]) -> bool {
    opaque(tag) == opaque(other)
}

/// Returns a validator without the mark of a weak one.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Returns the validators of a list, up to the first invalid one.
fn tags(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = list.iter().position(|byte| !b", \t".contains(byte))?;
        let text = opaque(&list[start..]).strip_prefix(b"\"")?;
        let rest = &text[1 + text.iter().position(|byte| *byte == b'"')?..];
        let tag = &list[start..list.len() - rest.len()];
        list = rest;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::Outcome::{self, Failed, NotModified, Proceed};
    use super::{ETAG, HeaderMap, IF_NONE_MATCH, MAX_LENGTH, Method, evaluate};
    use super::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    /// Returns the outcomes of a GET and of a POST, for a response with a strong
    /// validator.
    fn outcomes(fields: &[(&'static str, &str)]) -> [Outcome; 2] {
        let response = headers(&[("etag", "\"a\""), ("last-modified", MODIFIED)]);
        [Method::GET, Method::POST].map(|method| evaluate(&method, &headers(fields), &response))
    }

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";

    #[test]
    fn each_precondition_is_evaluated_alone() {
        for (field, value, expected) in [
            ("if-match", "\"a\"", [Proceed; 2]),
            ("if-match", "\"b\", \"a\"", [Proceed; 2]),
            ("if-match", "*", [Proceed; 2]),
            ("if-match", "W/\"a\"", [Failed; 2]),
            ("if-match", "\"b\"", [Failed; 2]),
            ("if-unmodified-since", MODIFIED, [Proceed; 2]),
            ("if-unmodified-since", AFTER, [Proceed; 2]),
            ("if-unmodified-since", BEFORE, [Failed; 2]),
            ("if-none-match", "W/\"a\"", [NotModified, Failed]),
            ("if-none-match", "*", [NotModified, Failed]),
            ("if-none-match", "\"b\"", [Proceed; 2]),
            ("if-modified-since", MODIFIED, [NotModified, Proceed]),
            ("if-modified-since", AFTER, [NotModified, Proceed]),
            ("if-modified-since", BEFORE, [Proceed; 2]),
        ] {
            assert_eq!(outcomes(&[(field, value)]), expected, "{field}: {value}");
        }
    }

    #[test]
    fn validators_come_before_dates_and_what_must_match_before_what_must_not() {
        for (fields, expected) in [
            ([("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], [Proceed; 2]),
            ([("if-match", "\"b\""), ("if-unmodified-since", AFTER)], [Failed; 2]),
            ([("if-none-match", "\"b\""), ("if-modified-since", AFTER)], [Proceed; 2]),
            ([("if-none-match", "\"a\""), ("if-modified-since", BEFORE)], [NotModified, Failed]),
            ([("if-match", "\"b\""), ("if-none-match", "\"a\"")], [Failed; 2]),
            ([("if-match", "\"a\""), ("if-none-match", "\"a\"")], [NotModified, Failed]),
            ([("if-match", "\"a\""), ("if-modified-since", AFTER)], [NotModified, Proceed]),
            ([("if-unmodified-since", BEFORE), ("if-none-match", "\"a\"")], [Failed; 2]),
            ([("if-match", "a"), ("if-unmodified-since", BEFORE)], [Proceed; 2]),
            ([("if-none-match", "a"), ("if-modified-since", AFTER)], [Proceed; 2]),
        ] {
            assert_eq!(outcomes(&fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn invalid_fields_have_no_effect() {
        for field in ["if-match", "if-none-match"] {
            for value in ["", "a", "\"a", "'a'", "w/\"a\"", "x, \"a\""] {
                assert_eq!(outcomes(&[(field, value)]), [Proceed; 2], "{field}: {value}");
            }
        }
        for field in ["if-unmodified-since", "if-modified-since"] {
            for value in ["", "0", "06 Nov 1994", "Sun, 31 Feb 1994 08:49:36 GMT"] {
                assert_eq!(outcomes(&[(field, value)]), [Proceed; 2], "{field}: {value}");
            }
            for date in [BEFORE, AFTER] {
                assert_eq!(outcomes(&[(field, date), (field, date)]), [Proceed; 2], "{field}");
            }
        }
    }

    #[test]
    fn a_response_without_validators_matches_only_any() {
        for (field, value, expected) in [
            ("if-match", "*", Proceed),
            ("if-match", "\"a\"", Failed),
            ("if-none-match", "*", Failed),
            ("if-none-match", "\"a\"", Proceed),
            ("if-unmodified-since", BEFORE, Proceed),
        ] {
            let outcome = evaluate(&Method::POST, &headers(&[(field, value)]), &HeaderMap::new());
            assert_eq!(outcome, expected, "{field}: {value}");
        }
        let fields = [("if-match", "\"b\""), ("if-none-match", "*")];
        assert_eq!(evaluate(&Method::OPTIONS, &headers(&fields), &HeaderMap::new()), Proceed);
    }

    #[test]
    fn a_weak_validator_never_matches_strongly() {
        let response = headers(&[("etag", "W/\"a\"")]);
        for tag in ["\"a\"", "W/\"a\""] {
            let outcome = |field| evaluate(&Method::GET, &headers(&[(field, tag)]), &response);
            assert_eq!([outcome("if-match"), outcome("if-none-match")], [Failed, NotModified]);
        }
    }

    fn known(etag: Option<&[u8]>, values: &[&[u8]]) -> bool {
        let value = |bytes| HeaderValue::from_bytes(bytes).unwrap();
        let mut request = HeaderMap::new();
        let mut response = HeaderMap::new();
        response.extend(etag.map(|etag| (ETAG, value(etag))));
        for bytes in values {
            request.append(IF_NONE_MATCH, value(bytes));
        }
        evaluate(&Method::GET, &request, &response) == NotModified
    }

    #[test]
    fn a_validator_in_the_list_matches() {
        for values in [
            &[&b"\"a\""[..]][..],
            &[b"W/\"a\""],
            &[b"*"],
            &[b" * "],
            &[b"\"x\", \"a\""],
            &[b"\"x\",\"a\",\"y\""],
            &[b", ,\"a\""],
            &[b"\"x\"", b"W/\"y\", W/\"a\""],
            &[b"\"x,\"\"a\""],
        ] {
            assert!(known(Some(b"\"a\""), values), "{values:?}");
            assert!(known(Some(b"W/\"a\""), values), "{values:?}");
        }
    }

    #[test]
    fn a_validator_that_is_not_in_the_list_does_not_match() {
        for values in [
            &[][..],
            &[&b""[..]],
            &[b"\"b\""],
            &[b"a"],
            &[b"\"A\""],
            &[b"\"a"],
            &[b"a\""],
            &[b"\"aa\""],
            &[b"w/\"a\""],
            &[b"x, \"a\""],
            &[b"\"x, *\""],
            &[b"\"\xff\""],
        ] {
            assert!(!known(Some(b"\"a\""), values), "{values:?}");
        }
        assert!(!known(None, &[b"\"a\""]));
    }

    #[test]
    fn a_validator_can_contain_commas() {
        assert!(known(Some(b"\"a,b\""), &[b"\"x\", \"a,b\""]));
        assert!(!known(Some(b"\"b\""), &[b"\"a,\"b\""]));
    }

    #[test]
    fn long_lists_are_read_up_to_a_limit() {
        let list = |length: usize| format!("{}\"a\"", ",".repeat(length)).into_bytes();
        assert!(known(Some(b"\"a\""), &[&list(MAX_LENGTH - 3)]));
        assert!(!known(Some(b"\"a\""), &[&list(MAX_LENGTH - 2)]));
        assert!(!known(Some(b"\"a\""), &[&list(MAX_LENGTH), b"\"a\""]));
    }
}
