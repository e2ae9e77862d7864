//! The data of an instance's store: all that its host functions can use.

use std::sync::{Arc, PoisonError};

use http::HeaderName;
use relayer_rest_state::{ChainId, Command};
use tracing::Span;

use super::guest_log::GuestLog;
use super::info::ModuleInfo;
use super::limiter::Limiter;
use super::read_set::TrackedSnapshot;
use super::wasi::Wasi;
use super::wasi_http::Http;
use super::wire;

/// The maximum size of a reported cause, in bytes.
const MAX_FAILURE: usize = 512;

/// The data of an instance's store, which its imports use.
pub(super) struct StoreData {
    pub(super) snapshot: TrackedSnapshot,
    pub(super) span: Span,
    pub(super) module: Arc<ModuleInfo>,
    pub(super) log: GuestLog,
    pub(super) limiter: Limiter,
    /// The cause of a trap, as the module reports it before.
    pub(super) failure: Option<String>,
    /// Present if its mount has WASI. Boxed, because few mounts do.
    pub(super) wasi: Option<Box<Wasi>>,
}

impl StoreData {
    pub(super) fn clear_packets(&mut self, chain: Option<String>) {
        self.snapshot.record_command(Command::ClearPackets { chain: chain.map(ChainId::from) });
    }

    pub(super) fn header(&mut self, name: &str) -> Vec<Vec<u8>> {
        // No header has an invalid name.
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { return Vec::new() };
        self.snapshot.header(&name).iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    pub(super) fn query(&mut self) -> Option<String> {
        self.snapshot.query().map(str::to_owned)
    }

    /// Returns the path of the mount. All cached responses of a mount share it, so this
    /// read is not recorded.
    pub(super) fn mount(&mut self) -> Arc<str> {
        Arc::clone(&self.module.mount)
    }

    /// Returns the parts that `wasi:http` uses.
    ///
    /// # Panics
    /// Panics if its mount does not have WASI: then no function of it is linked.
    pub(super) fn http(&mut self) -> Http<'_> {
        let Self { wasi, snapshot, limiter, module, .. } = self;
        let wasi = wasi.as_mut().expect("only where it has WASI is it linked");
        Http { table: &mut wasi.table, state: &mut wasi.http, snapshot, limiter, module }
    }

    pub(super) fn log(&mut self, level: wire::Level, message: &str) {
        let _span = self.span.enter();
        match &self.wasi {
            // Output to stdout and stderr counts as well.
            Some(wasi) => {
                let mut log = wasi.log().lock().unwrap_or_else(PoisonError::into_inner);
                log.write(&self.module, level, message);
            }
            None => self.log.write(&self.module, level, message),
        }
    }

    pub(super) fn report_failure(&mut self, cause: &str) {
        let end = cause.floor_char_boundary(MAX_FAILURE);
        self.failure.get_or_insert_with(|| cause[..end].to_owned());
    }
}
