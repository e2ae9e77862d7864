//! Removes secrets from URLs.

use url::{Position, Url};

/// Removes the password, and the user name, which may be a token. Returns `false` if the URL
/// still has them, because URLs of its scheme have no credentials.
#[must_use]
pub fn remove_secrets(url: &mut Url) -> bool {
    let has_none = url.password().is_none() && url.username().is_empty();
    has_none || (url.set_password(None).is_ok() && url.set_username("").is_ok())
}

/// Returns whether an at sign follows the host: an unescaped `/`, `?` or `#` in a password
/// ends the host too early.
#[must_use]
pub fn has_secret_after_host(url: &Url) -> bool {
    url[Position::BeforePath..].contains('@')
}

/// Returns the text of a URL without secrets, unchanged if there are none; `None` if it
/// may have a secret that cannot be found.
#[must_use]
pub fn without_secrets(text: String) -> Option<String> {
    if !text.contains('@') {
        return Some(text);
    }
    let mut url = Url::parse(&text).ok()?;
    let is_clean = !has_secret_after_host(&url) && remove_secrets(&mut url);
    is_clean.then(|| url.into())
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn secrets_are_removed_from_urls() {
        let cases = [
            ("https://user:pass@host", Some("https://host/")),
            ("https://token@host:9090/x", Some("https://host:9090/x")),
            ("https://user:pa/ss@host", None),
            ("user:pass@host:26657", None),
            ("http://127.0.0.1:26657", Some("http://127.0.0.1:26657")),
            ("host:26657", Some("host:26657")),
            ("", Some("")),
        ];
        for (text, expected) in cases {
            assert_eq!(without_secrets(text.to_owned()).as_deref(), expected, "{text}");
        }
    }
}
