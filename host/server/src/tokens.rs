//! The file of tokens: a line `NAME TOKEN` for each client.

use std::env;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use relayer_rest_common::files;
use subtle::ConstantTimeEq;

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// The minimum length of a token, in characters.
const MIN_TOKEN: usize = 16;

/// The tokens of clients.
#[derive(Default)]
pub struct Tokens(Vec<(TokenName, Vec<u8>)>);

/// The name of a client's token, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenName(String);

/// The reason why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    /// The client has no token, or not in the form `Bearer TOKEN`.
    Unauthorized,
    /// The client's token is not known.
    Forbidden,
}

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file cannot be read.
    #[error("tokens {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Other users may read or change the file.
    #[error("tokens {}: other users may read or change it; make it your own file, with `chmod 600`", file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
    },
    /// A line is invalid.
    #[error("tokens {}: line {line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem, and the remedy.
        problem: &'static str,
    },
}

impl TokenName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tokens {
    /// Reads a file, which only its owner may read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if other users may read it, or if a
    /// line is invalid.
    pub fn read(file: &Path) -> Result<Self, TokensError> {
        let unreadable = |source| TokensError::Unreadable { file: file.to_owned(), source };
        let metadata = std::fs::metadata(file).map_err(unreadable)?;
        let is_own = [rustix::process::geteuid().as_raw(), 0].contains(&metadata.uid());
        // Group and others have no permissions. The bits of the group are the mask of an access
        // list in the service manager's folder, which no other user can enter.
        let is_credential = env::var_os("CREDENTIALS_DIRECTORY")
            .is_some_and(|folder| !folder.is_empty() && file.starts_with(folder));
        let forbidden = if is_credential { 0o037 } else { 0o077 };
        if !is_own || metadata.mode() & forbidden != 0 {
            return Err(TokensError::Exposed { file: file.to_owned() });
        }
        let bytes = files::read(file, MAX_FILE).map_err(unreadable)?;
        Self::parse(&bytes).map_err(|(line, problem)| TokensError::Line {
            file: file.to_owned(),
            line,
            problem,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, (usize, &'static str)> {
        let mut tokens = Self::default();
        for (place, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let invalid = |problem| (place + 1, problem);
            let line = str::from_utf8(line).map_err(|_| invalid("not UTF-8; write ASCII"))?.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
                return Err(invalid("expected a name, a space and a token"));
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
            if name.len() > 64 || !name.chars().all(is_name) {
                return Err(invalid("the name may have 1 to 64 letters, digits and -._@"));
            }
            if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(invalid(
                    "the token needs at least 16 printable ASCII characters, such as those of \
                     `openssl rand -hex 32`",
                ));
            }
            if tokens.0.iter().any(|(known, _)| known.0 == name) {
                return Err(invalid("the name is taken by a line before; choose another"));
            }
            tokens.0.push((TokenName(name.to_owned()), token.as_bytes().to_vec()));
        }
        Ok(tokens)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the client whose token a request has.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Result<TokenName, TokenRefusal> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(TokenRefusal::Unauthorized);
        };
        let sent = bearer(value.as_bytes()).ok_or(TokenRefusal::Unauthorized)?;
        // All are compared, each in constant time, so that the time shows nothing of them
        // but their lengths.
        let mut client = None;
        for (name, token) in &self.0 {
            if bool::from(token.as_slice().ct_eq(sent)) {
                client = Some(name.clone());
            }
        }
        client.ok_or(TokenRefusal::Forbidden)
    }
}

/// Returns the token of `Bearer TOKEN`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::{TokenRefusal, Tokens, TokensError};
    use http::HeaderMap;
    use http::header::AUTHORIZATION;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const FILE: &[u8] = b"# clients\n\nops 0123456789abcdef\n  ci\tfedcba9876543210  \r\n";

    fn client(values: &[&str]) -> Result<String, TokenRefusal> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        Tokens::parse(FILE).unwrap().client(&headers).map(|name| name.as_str().to_owned())
    }

    #[test]
    fn clients_are_known_by_their_tokens() {
        for value in ["Bearer 0123456789abcdef", "bearer   0123456789abcdef "] {
            assert_eq!(client(&[value]).as_deref(), Ok("ops"));
        }
        assert_eq!(client(&["Bearer fedcba9876543210"]).as_deref(), Ok("ci"));
        for value in ["Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer x"] {
            assert_eq!(client(&[value]), Err(TokenRefusal::Forbidden), "{value}");
        }
        for value in ["", "Bearer", "Bearer  ", "Basic 0123456789abcdef", "0123456789abcdef"] {
            assert_eq!(client(&[value]), Err(TokenRefusal::Unauthorized), "{value}");
        }
        assert_eq!(client(&[]), Err(TokenRefusal::Unauthorized));
        let known = "Bearer 0123456789abcdef";
        assert_eq!(client(&[known, known]), Err(TokenRefusal::Unauthorized));
    }

    #[test]
    fn invalid_lines_are_rejected() {
        for (line, problem) in [
            ("ops", "expected a name"),
            ("ops 0123456789abcdef more", "expected a name"),
            ("o/ps 0123456789abcdef", "the name may have"),
            ("ops 0123456789abcde", "the token needs"),
            ("ops 0123456789abcde\u{e9}", "the token needs"),
            ("a 0123456789abcdef\na 0123456789abcdeg", "the name is taken"),
        ] {
            let (place, found) = Tokens::parse(line.as_bytes()).err().unwrap();
            assert!(place == line.lines().count() && found.starts_with(problem), "{found}");
        }
        assert_eq!(Tokens::parse(b"\xff").err().unwrap().1, "not UTF-8; write ASCII");
    }

    #[test]
    fn a_file_that_others_may_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        assert!(matches!(Tokens::read(&file), Err(TokensError::Unreadable { .. })));
        fs::write(&file, FILE).unwrap();
        for (mode, is_exposed) in [(0o600, false), (0o640, true), (0o604, true), (0o400, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let read = Tokens::read(&file);
            assert_eq!(matches!(read, Err(TokensError::Exposed { .. })), is_exposed, "{mode:o}");
        }
    }
}
