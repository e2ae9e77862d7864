//! The request headers that a response depends on.

use http::header::VARY;
use http::{HeaderMap, HeaderValue};

use super::list;

/// The headers by which a client of a GET gets the current response, the next one that differs,
/// or a stream.
pub(crate) const INTEREST: [&str; 2] = ["accept", "prefer"];

/// Adds names of request headers to `vary`, which becomes one header without repetitions.
/// Nothing is added to `*`.
pub(crate) fn add(headers: &mut HeaderMap, names: &[&str]) {
    let mut all: Vec<&str> = Vec::new();
    for name in list::members(headers, VARY).chain(names.iter().copied()) {
        if !name.is_empty() && !all.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            all.push(name);
        }
    }
    let text = if all.contains(&"*") { "*".to_owned() } else { all.join(", ") };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(VARY, value);
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, HeaderValue, VARY, add};

    #[test]
    fn names_are_added_once_to_one_header() {
        for (before, names, expected) in [
            (&[][..], &["accept", "prefer"][..], "accept, prefer"),
            (&["cookie"], &["accept"], "cookie, accept"),
            (&["a, B ,,c", "Accept"], &["b", "accept", "d"], "a, B, c, Accept, d"),
            (&["*"], &["accept"], "*"),
            (&["a", "b, *"], &["accept"], "*"),
        ] {
            let mut headers = HeaderMap::new();
            for value in before {
                headers.append(VARY, HeaderValue::from_static(value));
            }
            add(&mut headers, names);
            let values: Vec<_> = headers.get_all(VARY).iter().collect();
            assert_eq!(values, [expected]);
        }
    }
}
