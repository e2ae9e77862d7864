//! Whether a client has already got the answer that it asks for.

use hyper::HeaderMap;
use hyper::header::{ETAG, IF_NONE_MATCH};

/// Whether one of the validators that the client has is that of the answer
/// with these headers.
pub(super) fn is_known(request: &HeaderMap, answer: &HeaderMap) -> bool {
    let Some(etag) = answer.get(ETAG) else { return false };
    let etag = opaque(etag.as_bytes());
    request.get_all(IF_NONE_MATCH).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        value == b"*" || tags(value).any(|tag| tag == etag)
    })
}

/// A validator without the mark of a weak one, which makes no difference here.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The validators of a list, up to the first that is none.
fn tags(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = list.iter().position(|byte| !b", \t".contains(byte))?;
        let tag = opaque(&list[start..]);
        let end = 1 + tag.strip_prefix(b"\"")?.iter().position(|byte| *byte == b'"')?;
        let (tag, rest) = tag.split_at(end + 1);
        list = rest;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::is_known;
    use hyper::HeaderMap;
    use hyper::header::{ETAG, HeaderValue, IF_NONE_MATCH};

    fn known(etag: Option<&[u8]>, values: &[&[u8]]) -> bool {
        let value = |bytes| HeaderValue::from_bytes(bytes).unwrap();
        let (mut request, mut answer) = (HeaderMap::new(), HeaderMap::new());
        answer.extend(etag.map(|etag| (ETAG, value(etag))));
        for bytes in values {
            request.append(IF_NONE_MATCH, value(bytes));
        }
        is_known(&request, &answer)
    }

    #[test]
    fn a_validator_is_known_where_it_is_in_the_list() {
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
    fn any_other_is_not() {
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
        assert!(!known(None, &[b"*"]));
    }

    #[test]
    fn a_validator_may_have_commas_in_it() {
        assert!(known(Some(b"\"a,b\""), &[b"\"x\", \"a,b\""]));
        assert!(!known(Some(b"\"b\""), &[b"\"a,\"b\""]));
    }
}
