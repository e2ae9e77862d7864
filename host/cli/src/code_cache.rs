//! The folder of the code cache.

use std::path::PathBuf;

use clap::Args;
use relayer_rest_sandbox::{CodeCache, CodeCacheError};

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
        match &self.code_cache {
            Some(folder) => CodeCache::open(folder).map(Some),
            None => CodeCache::from_env(),
        }
    }
}
