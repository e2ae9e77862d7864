//! Negotiates the encoding of a response by the client's `accept-encoding`.

use hyper::HeaderMap;
use hyper::header::{ACCEPT_ENCODING, HeaderValue};

use super::quality::{has_others, quality};
use crate::response::Encoding;

/// The maximum number of bytes that are read: those of a browser are less than a hundred,
/// and a client could send lists that take longer to read than its response to make.
const MAX_LENGTH: usize = 1 << 10;

/// The qualities of codings, in thousandths, as far as the client names them.
#[derive(Default)]
struct Qualities {
    encodings: [Option<u16>; Encoding::ALL.len()],
    identity: Option<u16>,
    /// The quality of all codings without one.
    any: Option<u16>,
}

/// Returns the one of these encodings to send a body in; `None` sends it unencoded. Among
/// encodings of equal quality, the first one is chosen.
pub(super) fn preferred(headers: &HeaderMap, encodings: &[Encoding]) -> Option<Encoding> {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return None;
    }
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    if values.map(HeaderValue::len).sum::<usize>() > MAX_LENGTH {
        return None;
    }
    let mut qualities = Qualities::default();
    for (name, quality) in members(headers) {
        if let Some(place) = qualities.of(name) {
            place.get_or_insert(quality);
        }
    }
    let Qualities { encodings: named, identity, any } = qualities;
    encodings
        .iter()
        .rev()
        .map(|encoding| (named[*encoding as usize].or(any).unwrap_or(0), *encoding))
        .filter(|(quality, _)| *quality > 0 && *quality >= identity.unwrap_or(0))
        .max_by_key(|(quality, _)| *quality)
        .map(|(_, encoding)| encoding)
}

impl Qualities {
    /// Returns the quality of a coding; `None` if the server does not know the coding.
    fn of(&mut self, name: &str) -> Option<&mut Option<u16>> {
        if name == "*" {
            return Some(&mut self.any);
        }
        if name.eq_ignore_ascii_case("identity") {
            return Some(&mut self.identity);
        }
        let encoding = Encoding::ALL.into_iter().find(|encoding| is(name, encoding.name()))?;
        Some(&mut self.encodings[encoding as usize])
    }
}

/// Returns the codings that the client names, with their qualities in thousandths.
fn members(headers: &HeaderMap) -> impl Iterator<Item = (&str, u16)> {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|member| {
            let (name, parameters) = member.split_once(';').unwrap_or((member, ""));
            // Codings have no parameters of their own.
            let is_known = !has_others(parameters);
            (name.trim(), if is_known { quality(parameters) } else { 0 })
        })
}

fn is(member: &str, name: &str) -> bool {
    member.eq_ignore_ascii_case(name)
        // RFC 9110, 8.4.1.3: an alias that old clients use.
        || (name == "gzip" && member.eq_ignore_ascii_case("x-gzip"))
}

#[cfg(test)]
mod tests {
    use super::{MAX_LENGTH, preferred};
    use crate::response::Encoding::{self, Brotli, Gzip, Zstd};
    use hyper::HeaderMap;
    use hyper::header::ACCEPT_ENCODING;

    #[test]
    fn the_clients_preference_comes_before_the_servers() {
        for (values, encoding) in [
            (&[][..], None),
            (&[""], None),
            (&["identity"], None),
            (&["deflate"], None),
            (&["gzip"], Some(Gzip)),
            (&["GZip"], Some(Gzip)),
            (&["x-gzip"], Some(Gzip)),
            (&["gzip, deflate, br, zstd"], Some(Zstd)),
            (&["gzip, deflate, br"], Some(Brotli)),
            (&["gzip", "br"], Some(Brotli)),
            (&["*"], Some(Zstd)),
            (&["zstd;q=0, *"], Some(Brotli)),
            (&["gzip;q=1.0, br;q=0.9"], Some(Gzip)),
            (&["gzip; q=0.5 , br ; Q = 0.7"], Some(Brotli)),
            (&["gzip;q=0"], None),
            (&["*;q=0"], None),
            (&["gzip;q=0.001"], Some(Gzip)),
            (&["identity, gzip;q=0.5"], None),
            (&["identity;q=0.5, gzip"], Some(Gzip)),
            (&["identity, gzip"], Some(Gzip)),
            (&["gzip;q=2", "br;q=-1", "zstd;q=x"], None),
            (&["gzip;q=NaN", "br;level=1", ";;;", ",,"], None),
            (&["gzip;q", "br;quality=1"], None),
            (&["gzip;q=0, br;q=0.5, gzip, br;q=0"], Some(Brotli)),
            (&[&",".repeat(MAX_LENGTH - 4), "gzip"], Some(Gzip)),
            (&[&",".repeat(MAX_LENGTH - 3), "gzip"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(preferred(&headers, &Encoding::ALL), encoding, "{values:?}");
        }
    }
}
