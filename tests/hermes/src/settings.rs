//! The settings of the host: with the extensions, and with commands for clients with a token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The token of the clients, as a header.
pub const TOKEN: &str = "authorization: Bearer 0123456789abcdef\r\n";

const SETTINGS: &str = "
extension = [{ name = 'health' }, { name = 'metrics' }]

# Hermes is built without optimization, and compiles at a lower priority than it responds.
[swap]
time = '1h'

[commands]
clear-packets = true
token-file = 'tokens'
";

/// Writes the settings, and returns the path of their file.
pub(crate) fn write(folder: &Path) -> PathBuf {
    let tokens = folder.join("tokens");
    fs::write(&tokens, "ops 0123456789abcdef\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let file = folder.join("relayer-rest.toml");
    fs::write(&file, SETTINGS).unwrap();
    file
}
