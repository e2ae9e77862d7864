//! The credentials that Docker stores, and other programs that use its file.

use std::collections::BTreeMap;
use std::env;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use relayer_rest_common::files;
use serde::Deserialize;

use super::error::RegistryError;

/// The key under which Docker stores the credentials of its own registry.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// The user name with which a helper returns an identity token.
const TOKEN_USER: &str = "<token>";

/// The credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A user's name and password.
    User { name: String, password: String },
    /// A token that is exchanged for others.
    IdentityToken(String),
}

/// The configuration of Docker. Other keys do not matter here.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

/// The entry of a registry.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The response of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperResponse {
    username: String,
    secret: String,
}

impl Debug for Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // They are secrets.
        f.write_str("Credentials")
    }
}

/// Returns the credentials for a registry, if there are some. A missing default file has none.
pub(crate) fn read(
    file: Option<&Path>,
    registry: &str,
) -> Result<Option<Credentials>, RegistryError> {
    let Some(path) = file.map(Path::to_owned).or_else(default_file) else { return Ok(None) };
    let error = |problem: String| RegistryError::Credentials { file: path.clone(), problem };
    let bytes = match files::read(&path, files::MAX_TEXT) {
        Ok(bytes) => bytes,
        Err(missing) if file.is_none() && missing.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(problem) => return Err(error(problem.to_string())),
    };
    let config = serde_json::from_slice::<DockerConfig>(&bytes);
    // The message of the parser may not quote the secrets in the file.
    let config = config.map_err(|problem| {
        error(format!("not valid at line {}, column {}", problem.line(), problem.column()))
    })?;
    config.credentials(registry).map_err(error)
}

/// Returns the file of Docker: `config.json` in `$DOCKER_CONFIG` or `~/.docker`.
fn default_file() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = folder("DOCKER_CONFIG").or_else(|| Some(folder("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}

impl DockerConfig {
    fn credentials(&self, registry: &str) -> Result<Option<Credentials>, String> {
        let keys = keys(registry);
        let helper = keys.iter().find_map(|key| self.cred_helpers.get(key));
        if let Some(helper) = helper.or(self.creds_store.as_ref())
            && let Some(credentials) = ask_helper(helper, &keys[0])?
        {
            return Ok(Some(credentials));
        }
        let entry = keys.iter().find_map(|key| self.auths.get(key));
        entry.map_or(Ok(None), Entry::credentials)
    }
}

/// Returns the keys under which the credentials of a registry can be stored.
fn keys(registry: &str) -> Vec<String> {
    let mut keys = Vec::new();
    if registry == "docker.io" {
        keys.push(DOCKER_HUB.to_owned());
    }
    let schemes = ["", "https://", "http://"];
    for end in ["", "/", "/v1/", "/v2/"] {
        keys.extend(schemes.map(|scheme| format!("{scheme}{registry}{end}")));
    }
    keys
}

impl Entry {
    fn credentials(&self) -> Result<Option<Credentials>, String> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = given(&self.identitytoken) {
            return Ok(Some(Credentials::IdentityToken(token)));
        }
        if let (Some(name), Some(password)) = (given(&self.username), given(&self.password)) {
            return Ok(Some(Credentials::User { name, password }));
        }
        let Some(auth) = given(&self.auth) else { return Ok(None) };
        let decoded = STANDARD.decode(auth.trim()).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (name, password) = pair.ok_or("`auth` is not NAME:PASSWORD in base64")?;
        // Docker pads with zeros.
        let password = password.trim_end_matches('\0').to_owned();
        Ok(Some(Credentials::User { name: name.to_owned(), password }))
    }
}

/// Returns the credentials in a store of the system, from the program
/// `docker-credential-NAME`. A program that fails has none.
fn ask_helper(name: &str, server: &str) -> Result<Option<Credentials>, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !name.bytes().all(is_plain) {
        return Err(format!("helper {name:?} has other characters than letters, digits and -"));
    }
    let program = format!("docker-credential-{name}");
    let started = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|error| format!("helper {program} cannot be run: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that has ended does not read it.
        stdin.write_all(server.as_bytes()).ok();
    }
    let output = child.wait_with_output().map_err(|error| format!("helper {program}: {error}"))?;
    if !output.status.success() {
        return Ok(None);
    }
    let response: HelperResponse = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("helper {program} has a response that is not valid"))?;
    let HelperResponse { username, secret } = response;
    Ok(Some(if username == TOKEN_USER {
        Credentials::IdentityToken(secret)
    } else {
        Credentials::User { name: username, password: secret }
    }))
}

#[cfg(test)]
mod tests {
    use super::{Credentials, read};
    use std::fs;

    fn credentials(text: &str, registry: &str) -> Result<Option<Credentials>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(Some(file.path()), registry).map_err(|error| error.to_string())
    }

    fn user(name: &str, password: &str) -> Credentials {
        Credentials::User { name: name.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn the_forms_of_docker_are_read() {
        // `user:pa:ss` in base64.
        let auth = r#"{"auths":{"a:5000":{"auth":"dXNlcjpwYTpzcw=="},"https://b/v2/":{"username":"u","password":"p"},
            "c":{"identitytoken":"t"},"d":{},"https://index.docker.io/v1/":{"username":"h","password":"p"}},"other":1}"#;
        assert_eq!(credentials(auth, "a:5000"), Ok(Some(user("user", "pa:ss"))));
        assert_eq!(credentials(auth, "b"), Ok(Some(user("u", "p"))));
        assert_eq!(credentials(auth, "c"), Ok(Some(Credentials::IdentityToken("t".to_owned()))));
        assert_eq!(credentials(auth, "docker.io"), Ok(Some(user("h", "p"))));
        for registry in ["a", "d", "a:5001"] {
            assert_eq!(credentials(auth, registry), Ok(None));
        }
    }

    #[test]
    fn errors_do_not_show_secrets() {
        for (text, problem) in [
            (r#"{"auths":{"a":{"auth":"secret!"}}}"#, "`auth` is not NAME:PASSWORD in base64"),
            (r#"{"auths":{"a":"secret"}}"#, "not valid at line 1, column"),
            ("{\n", "not valid at line 2, column"),
            (r#"{"credsStore":"../x"}"#, "helper \"../x\" has other characters"),
            (r#"{"credsStore":"of-nothing"}"#, "helper docker-credential-of-nothing cannot be run"),
        ] {
            let error = credentials(text, "a").unwrap_err();
            assert!(error.contains(problem) && !error.contains("secret"), "{error}");
        }
        let missing = read(Some("/nowhere/config.json".as_ref()), "a").unwrap_err().to_string();
        assert!(missing.starts_with("credentials /nowhere/config.json: No such file"), "{missing}");
        assert_eq!(format!("{:?}", user("a", "secret")), "Credentials");
    }
}
