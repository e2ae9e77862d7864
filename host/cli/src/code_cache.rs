//! The folder of the code cache.

use std::env;
use std::path::PathBuf;

use clap::Args;
use relayer_rest_sandbox::{CodeCache, CodeCacheError};
use tracing::warn;

use super::path_from_env;

#[derive(Args)]
pub(super) struct CodeCacheArgs {
    /// Folder for compiled modules, writable by this user only
    /// [default: `$RELAYER_REST_CODE_CACHE`, or `relayer-rest` in
    /// `$XDG_CACHE_HOME` or `~/.cache`]
    #[arg(long, value_name = "DIR")]
    code_cache: Option<PathBuf>,
    /// Compile the modules at each start
    #[arg(long, conflicts_with = "code_cache")]
    no_code_cache: bool,
}

impl CodeCacheArgs {
    /// Opens the folder. Returns an error if a given folder is unsuitable, and no cache
    /// if the default folder is.
    pub(super) fn open(&self) -> Result<Option<CodeCache>, CodeCacheError> {
        if self.no_code_cache {
            return Ok(None);
        }
        let given = self.code_cache.clone().or_else(|| path_from_env("RELAYER_REST_CODE_CACHE"));
        if let Some(folder) = given {
            return CodeCache::open(&folder).map(Some);
        }
        let Some(folder) = default_folder() else {
            warn!(
                error = "neither XDG_CACHE_HOME nor HOME is an absolute path; choose a folder with --code-cache DIR, or use --no-code-cache",
                "no code cache"
            );
            return Ok(None);
        };
        let opened = CodeCache::open(&folder);
        Ok(opened.inspect_err(|error| warn!(%error, "no code cache")).ok())
    }
}

fn default_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(caches?.join("relayer-rest"))
}
