//! Capsules of failed requests: files from which a run can be repeated.
//!
//! While a request is served, only references are kept: to the snapshot, and to the list of
//! reads. A thread of its own makes the files.
//!
//! | file | job |
//! |---|---|
//! | `folder.rs` | the folder with the newest capsules |
//! | `recent.rs` | the newest requests, for capsules on demand |
//! | `settings.rs` | the section `[capsules]` |

mod folder;
mod recent;
mod settings;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;

use http::HeaderValue;
use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_common::priority;
use relayer_rest_common::text::for_log;
use relayer_rest_sandbox::{
    Capsule, GuestRequest, Module, Recorder, Redaction, Run, RunRecord, RunRecorder,
};
use relayer_rest_state::Snapshot;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::cache::{RecordedResponse, request_size};
use folder::{Folder, NewCapsule, is_bundled};
use recent::{Recent, RecentList, RecentRequest};
pub use settings::{CapsulesConfig, RedactedHeaders};

/// The maximum number of failed requests that wait for their files. Further ones are dropped,
/// and counted.
const MAX_WAITING: usize = 64;

/// The maximum size of their requests and of the bodies of their responses, in bytes.
const MAX_WAITING_SIZE: usize = 64 << 20;

/// Keeps capsules of failed requests.
#[derive(Debug)]
pub struct Capsules {
    failures: Arc<Failures>,
    writer: Mutex<Option<JoinHandle<()>>>,
    redaction: Redaction,
    recent: Recent,
}

/// The failed requests that wait for their files.
#[derive(Debug)]
struct Failures {
    /// `None` after the end.
    queue: Mutex<Option<SyncSender<Failure>>>,
    /// A permit for each byte.
    room: Arc<Semaphore>,
    tally: CapsuleTally,
}

/// The counts of capsules. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct CapsuleTally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
}

/// The folder of capsules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("capsules: folder {} cannot be used: {source}; check the path and its permissions (capsules.folder)", folder.display())]
pub struct CapsulesError {
    folder: PathBuf,
    source: io::Error,
}

/// The reason why there is no capsule of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapsuleRequestError {
    /// The request is too old or too large, or shared the run of another one.
    #[error(
        "request {0}: not among the recent ones of this server, larger than 1 MiB, or it shared the run of another; repeat it, and take the value of x-request-id"
    )]
    Unknown(String),
    /// The run cannot be repeated.
    #[error("the run cannot be repeated: {0}")]
    Failed(String),
}

/// A failed request.
#[derive(Debug)]
struct Failure {
    id: HeaderValue,
    time: SystemTime,
    run: RunRecord,
    _room: OwnedSemaphorePermit,
}

/// Keeps the failed runs of a request.
#[derive(Debug)]
struct FailureRecorder {
    /// Weak, because the list refers to the request, which refers to this. A list for each thread, so
    /// that threads seldom share its reference counts.
    recent: Weak<RecentList>,
    id: HeaderValue,
}

impl Capsules {
    /// Opens the folder of the settings, and creates it if it is missing. Returns `None` if the
    /// settings have none.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be used.
    pub fn open(config: &CapsulesConfig) -> Result<Option<Arc<Self>>, CapsulesError> {
        let Some(path) = &config.folder else { return Ok(None) };
        let error = |source| CapsulesError { folder: path.clone(), source };
        let folder = Folder::open(path, config).map_err(error)?;
        let (queue, failures) = sync_channel(MAX_WAITING);
        let tally = CapsuleTally::default();
        let redaction = Redaction::new(config.redact.0.clone());
        let writer = Writer {
            folder,
            redaction: redaction.clone(),
            tally: tally.clone(),
            warnings: LogRate::new(1),
        };
        let run = move || writer.run(&failures);
        let writer = Builder::new().name("capsules".to_owned()).spawn(run).map_err(error)?;
        info!(folder = %path.display(), "capsules of failed requests are kept");
        let failures = Arc::new(Failures::new(Some(queue), tally));
        let recent = Recent::new(&failures);
        let writer = Mutex::new(Some(writer));
        Ok(Some(Arc::new(Self { failures, writer, redaction, recent })))
    }

    /// Returns the counts.
    #[must_use]
    pub fn tally(&self) -> CapsuleTally {
        self.failures.tally.clone()
    }

    /// Returns the recorder of a request with this id.
    pub(crate) fn recorder(&self, id: &HeaderValue) -> Arc<Recorder> {
        let recent = Arc::downgrade(self.recent.of_thread());
        Arc::new(Recorder(Box::new(FailureRecorder { recent, id: id.clone() })))
    }

    /// Keeps references to the inputs of a request whose response was cached.
    pub(crate) fn hit(
        &self,
        id: &HeaderValue,
        module: &Module,
        response: &Arc<RecordedResponse>,
        snapshot: &Arc<Snapshot>,
    ) {
        self.recent.of_thread().push(RecentRequest {
            id: id.clone(),
            time: SystemTime::now(),
            module: module.clone(),
            request: Arc::clone(response.request()),
            snapshot: Arc::clone(snapshot),
        });
    }

    /// Makes the capsule of a recent request: repeats its run, which has no effect.
    ///
    /// # Errors
    /// Returns an error if the request is not known, or if its run cannot be repeated.
    pub async fn capsule(&self, id: &str) -> Result<Vec<u8>, CapsuleRequestError> {
        let recent = self.recent.find(id);
        let RecentRequest { time, module, request, snapshot, .. } =
            recent.ok_or_else(|| CapsuleRequestError::Unknown(for_log(id)))?;
        let request = GuestRequest { recorder: None, ..(*request).clone() };
        let run = async move {
            let run = RunRecord::from_run(&module.afresh(), request, snapshot).await;
            run.map_err(|error| CapsuleRequestError::Failed(error.to_string()))
        };
        // The guest keeps its thread until it ends.
        let runtime = Handle::current();
        let run = spawn_blocking(move || runtime.block_on(run)).await;
        let run = run.map_err(|error| CapsuleRequestError::Failed(error.to_string()))??;
        let json =
            Capsule::new(&run, id, time, &self.redaction).and_then(|capsule| capsule.to_json());
        json.map_err(|error| CapsuleRequestError::Failed(error.to_string()))
    }

    /// Writes the capsules of all requests that failed so far. Later ones are dropped.
    pub fn finish(&self) {
        // The writer ends when it has written the waiting ones.
        self.failures.end();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.join().ok();
        }
    }
}

impl Failures {
    fn new(queue: Option<SyncSender<Failure>>, tally: CapsuleTally) -> Self {
        Self { queue: Mutex::new(queue), room: Arc::new(Semaphore::new(MAX_WAITING_SIZE)), tally }
    }

    fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn keep(&self, id: HeaderValue, time: SystemTime, run: &Run<'_>) {
        let body = run.result.map_or(0, |response| response.body().len());
        let size = u32::try_from(request_size(run.request) + body).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(size);
        let Some(run) = run.to_record() else { return };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = &*queue else { return };
        let is_kept =
            room.is_ok_and(|room| queue.try_send(Failure { id, time, run, _room: room }).is_ok());
        if !is_kept {
            self.tally.0.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl CapsuleTally {
    /// Returns the number of capsules that were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.written.load(Relaxed)
    }

    /// Returns the number of failed requests without a capsule, because too many failed at once,
    /// or because it could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }
}

impl RunRecorder for FailureRecorder {
    fn record(&self, run: &Run<'_>) {
        let Some(recent) = self.recent.upgrade().filter(|_| !run.is_background) else { return };
        let id = self.id.clone();
        let time = SystemTime::now();
        recent.push(RecentRequest {
            id: id.clone(),
            time,
            module: run.module.clone(),
            request: Arc::clone(run.request),
            snapshot: Arc::clone(run.snapshot),
        });
        if run.is_failure() {
            recent.failures.keep(id, time, run);
        }
    }
}

/// Writes the files.
struct Writer {
    folder: Folder,
    redaction: Redaction,
    tally: CapsuleTally,
    warnings: LogRate,
}

impl Writer {
    fn run(mut self, failures: &Receiver<Failure>) {
        priority::lower_thread();
        for Failure { id, time, run, _room } in failures {
            let id = id.to_str().unwrap_or_default();
            let module = run.module().digest();
            let component = run.module().component().filter(|_| !is_bundled(module));
            let component = component.map(AsRef::as_ref);
            let written = Capsule::new(&run, id, time, &self.redaction)
                .and_then(|capsule| capsule.to_json())
                .map_err(|error| error.to_string())
                .and_then(|json| {
                    let new = NewCapsule { id, time, module, component, json: &json };
                    self.folder.write(&new).map_err(|error| error.to_string())
                });
            match written {
                Ok(()) => {
                    self.tally.0.written.fetch_add(1, Relaxed);
                }
                Err(reason) => {
                    self.tally.0.dropped.fetch_add(1, Relaxed);
                    if !matches!(self.warnings.acquire(1), Permit::Denied) {
                        warn!(id, reason, "capsule not written");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CapsuleTally, Failures, MAX_WAITING, MAX_WAITING_SIZE};
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, Method, Response};
    use relayer_rest_sandbox::{GuestRequest, ReadSet, Run};
    use relayer_rest_state::StatePublisher;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;
    use std::time::SystemTime;

    #[test]
    fn failures_that_wait_are_bounded() {
        let module = crate::registry::test_module(0);
        let snapshot = StatePublisher::new().reader().snapshot();
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let failures = Failures::new(Some(queue), CapsuleTally::default());
        let keep = |body: &Bytes| {
            let request = GuestRequest::new(Method::GET, "/".parse().unwrap(), HeaderMap::new());
            let mut response = Response::new(body.clone());
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            let run = Run {
                module: &module,
                request: &Arc::new(request),
                snapshot: &snapshot,
                reads: &ReadSet::default(),
                is_background: false,
                commands: &[],
                result: Ok(&response),
            };
            failures.keep(HeaderValue::from(1), SystemTime::now(), &run);
        };
        let half = Bytes::from(vec![0; MAX_WAITING_SIZE / 2]);
        keep(&half);
        keep(&half);
        assert_eq!((waiting.try_iter().count(), failures.tally.dropped()), (1, 1));
        // The first has its file.
        keep(&half);
        (0..MAX_WAITING).for_each(|_| keep(&Bytes::new()));
        assert_eq!((waiting.try_iter().count(), failures.tally.dropped()), (MAX_WAITING, 2));
    }
}
