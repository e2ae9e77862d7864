//! Swaps a module when its file changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use relayer_rest_common::stable_file;
use relayer_rest_sandbox::Digest;
use relayer_rest_state::StateReader;
use tokio::runtime::Handle;
use tracing::{debug, warn};

use crate::registry::{Candidate, Mount, Rejection, Source, SwapOutcome};

/// The time between two attempts while another swap runs.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct WatchedModule {
    mount: Arc<Mount>,
    file: PathBuf,
    /// The digest that the settings require.
    sha256: Option<Digest>,
    state: StateReader,
    runtime: Handle,
    /// The last content that was handled, which is not tried again. Never locked during a
    /// swap, because a reload reads it.
    last: Mutex<LastContent>,
}

/// The content of a file that was handled.
struct LastContent {
    /// `None` if it could not be read.
    digest: Option<Digest>,
    /// The reason why it was rejected.
    rejection: Option<String>,
}

impl WatchedModule {
    /// Watches the file of a mount's module, which had this digest when it was read.
    pub(super) fn new(
        mount: &Arc<Mount>,
        file: &Path,
        digest: Option<Digest>,
        sha256: Option<Digest>,
        state: &StateReader,
    ) -> Self {
        Self {
            last: Mutex::new(LastContent { digest, rejection: None }),
            mount: Arc::clone(mount),
            file: file.to_owned(),
            sha256,
            state: state.clone(),
            runtime: Handle::current(),
        }
    }

    /// Returns the digest of the last content that was handled.
    pub(super) fn last_read(&self) -> Option<Digest> {
        self.last().digest
    }

    /// Returns the reason why the last content was rejected, if it was.
    pub(super) fn rejection(&self) -> Option<String> {
        self.last().rejection.clone()
    }

    fn last(&self) -> MutexGuard<'_, LastContent> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Swaps in the module in the file, if it has changed. This blocks, so it must not be
    /// called in a task, and only one thread may call it.
    pub(super) fn reload(&self) {
        let mount = self.mount.path();
        let name = self.file.display().to_string();
        let limit = self.mount.swap_limits().size;
        let bytes = match stable_file::read(&self.file, limit.as_u64()) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => {
                return warn!(
                    %mount,
                    file = name,
                    %error,
                    limit = %limit,
                    "cannot read the module file; retrying when it changes"
                );
            }
        };
        let digest = Digest::new(&bytes);
        if self.last_read() == Some(digest) {
            return debug!(%mount, file = name, %digest, "module file unchanged");
        }
        let source = Source::Bytes { name, bytes };
        let candidate = Candidate { sha256: self.sha256, ..Candidate::new(source) };
        let rejection = loop {
            // It is rejected until the shadow ends, and each rejection is logged and counted.
            while self.mount.has_shadow() {
                thread::sleep(RETRY_INTERVAL);
            }
            let report = self.runtime.block_on(self.mount.swap(candidate.clone(), &self.state));
            match report.outcome {
                // Another swap goes first; its module is then compared with this one.
                SwapOutcome::Rejected { reason: Rejection::Busy | Rejection::Conflict, .. } => {
                    thread::sleep(RETRY_INTERVAL);
                }
                // The digest is not recorded: the next attempt may succeed, when the file
                // is touched.
                SwapOutcome::Rejected { reason: Rejection::Timeout | Rejection::Host, .. } => {
                    return;
                }
                SwapOutcome::Rejected { message, .. } => break Some(message),
                _ => break None,
            }
        };
        *self.last() = LastContent { digest: Some(digest), rejection };
    }
}
