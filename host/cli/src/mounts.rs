//! The mounts of the settings, as a server loads them, for the commands without a server.

use relayer_rest_sandbox::{API, CodeCache, Digest};
use relayer_rest_server::config::Config;
use relayer_rest_server::registry::Mount;
use relayer_rest_server::reload::MountSpec;
use relayer_rest_state::StatePublisher;

use super::progress::Progress;
use super::{Failure, block_on, compile};

/// A mount of the settings, and the result of loading its module.
pub(super) struct CheckedMount {
    pub(super) spec: MountSpec,
    pub(super) result: Result<Digest, Failure>,
    /// All of them stay in memory, as in a server.
    _mount: Option<Mount>,
}

/// Returns the name of the module of a mount that is in no settings: the last segment of its path.
pub(super) fn module_name(mount: &str) -> &str {
    mount.rsplit('/').find(|segment| !segment.is_empty()).unwrap_or(API)
}

/// Loads the modules of all mounts, with the preflight of a server, and keeps their code.
pub(super) fn check(config: &Config, code_cache: Option<&CodeCache>) -> Vec<CheckedMount> {
    let specs = MountSpec::all(config, None);
    let progress = Progress::new(specs.len() as u64);
    let check = |spec: MountSpec| {
        progress.step(format!("compiling {}", spec.name_of_file()));
        match load(&spec, code_cache) {
            Ok((digest, mount)) => CheckedMount { spec, result: Ok(digest), _mount: Some(mount) },
            Err(failure) => CheckedMount { spec, result: Err(failure), _mount: None },
        }
    };
    specs.into_iter().map(check).collect()
}

fn load(spec: &MountSpec, code_cache: Option<&CodeCache>) -> Result<(Digest, Mount), Failure> {
    let mount = spec.mount(code_cache.cloned(), Some(compile::compiler()))?;
    let state = StatePublisher::new().reader();
    block_on(mount.load(spec.candidate(), &state))??;
    let module = mount.module().ok_or("the module is not there after it was loaded")?;
    Ok((module.digest(), mount))
}
