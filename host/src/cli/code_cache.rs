//! Where compiled code is kept, so that a start is quick.

use std::env;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::TempDir;
use tracing::warn;

use super::{compile, path_from_env};
use crate::module::{CodeCache, Engine, EngineError, EngineOptions};

#[derive(Args, Clone)]
pub(super) struct CodeCacheArgs {
    /// The folder for compiled modules. Default: `$RELAYER_REST_CODE_CACHE`,
    /// or `relayer-rest` in `$XDG_CACHE_HOME` or else in `~/.cache`.
    #[arg(long, value_name = "DIR")]
    code_cache: Option<PathBuf>,
    /// Compile modules at each start.
    #[arg(long, conflicts_with = "code_cache")]
    no_code_cache: bool,
}

impl CodeCacheArgs {
    /// Such an engine, which keeps what it compiles; or one that does not, where
    /// the folder is no good and nobody asked for it.
    pub(super) fn engine(&self, options: EngineOptions) -> Result<Engine, EngineError> {
        if self.no_code_cache {
            return Engine::with(options);
        }
        let given = self.code_cache.clone().or_else(|| path_from_env("RELAYER_REST_CODE_CACHE"));
        let is_given = given.is_some();
        let folder = match given {
            Some(folder) => Some(std::path::absolute(&folder).unwrap_or(folder)),
            None => default_folder(),
        };
        let Some(folder) = folder else { return Engine::with(options) };
        if !is_given && let Err(error) = own_folder(&folder) {
            warn!(folder = %folder.display(), %error, "compiled modules are not kept");
            return Engine::with(options);
        }
        let mut kept = CodeCache::new(folder);
        if let Some(program) = this_program() {
            kept = kept.with_compiler(program, vec![compile::NAME.into()]);
        }
        match Engine::with(EngineOptions { code_cache: Some(kept), ..options.clone() }) {
            Err(error @ EngineError::CodeCache { .. }) if !is_given => {
                warn!("{error}; compiled modules are not kept");
                Engine::with(options)
            }
            engine => engine,
        }
    }
}

/// An engine that keeps nothing, and has what it is given compiled as a server has
/// it, in a process whose memory is bounded; and the folder that this takes, which
/// is gone with it.
pub(super) fn passing(options: EngineOptions) -> Result<(Engine, Option<TempDir>), EngineError> {
    let (Some(program), Ok(folder)) = (this_program(), tempfile::tempdir()) else {
        return Ok((Engine::with(options)?, None));
    };
    let kept = CodeCache::new(folder.path().to_owned());
    let kept = kept.with_compiler(program, vec![compile::NAME.into()]);
    Ok((Engine::with(EngineOptions { code_cache: Some(kept), ..options })?, Some(folder)))
}

/// This program, even where its file is another one by now.
fn this_program() -> Option<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Some(running.to_owned()) } else { env::current_exe().ok() }
}

fn default_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(caches?.join("relayer-rest"))
}

/// Makes the folder. What is in it is run: one that others can write to will
/// not do.
fn own_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let meta = folder.metadata()?;
    if meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other("it is not a folder that only this user can write to"))
}
