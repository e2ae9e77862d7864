//! The authentication that a registry asks for: the header `WWW-Authenticate`.

/// The authentication that a registry asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// The user's name and password.
    Basic,
    /// A token of another service.
    Bearer {
        /// The URL of the service.
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// Parses the header. Returns `None` for other schemes.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut challenge = (None, None, None);
        let mut rest = parameters.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=')?;
            let (value, after) = value(after)?;
            match name.trim().to_ascii_lowercase().as_str() {
                "realm" => challenge.0 = Some(value),
                "service" => challenge.1 = Some(value),
                "scope" => challenge.2 = Some(value),
                _ => {}
            }
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        let (realm, service, scope) = challenge;
        Some(Self::Bearer { realm: realm?, service, scope })
    }
}

/// Returns the value of a parameter, quoted or not, and the text after it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return Some((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return Some((value, &quoted[place + 1..])),
            '\\' => value.push(chars.next()?.1),
            char => value.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[test]
    fn challenges_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let [service, scope] = [service, scope].map(|text| text.map(str::to_owned));
            Some(Challenge::Bearer { realm: realm.to_owned(), service, scope })
        };
        for (header, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            ("Negotiate", None),
            ("Bearer", None),
            ("Bearer realm", None),
            ("Bearer realm=\"unclosed", None),
            ("Bearer realm=\"https://a/t\"", bearer("https://a/t", None, None)),
            (
                "bearer realm=\"https://a/t\",service=\"s\", scope=\"repository:a/b:pull,push\"",
                bearer("https://a/t", Some("s"), Some("repository:a/b:pull,push")),
            ),
            ("Bearer scope=x , Realm=\"a\\\"b\"", bearer("a\"b", None, Some("x"))),
        ] {
            assert_eq!(Challenge::parse(header), expected, "{header}");
        }
    }
}
