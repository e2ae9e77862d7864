//! Records of runs, from which capsules are made.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use relayer_rest_state::{Command, Snapshot};

use super::call_error::CallError;
use super::module::Module;
use super::outcome::Outcome;
use super::read_set::ReadSet;
use super::request::GuestRequest;

/// The recorder of a request, for [`GuestRequest::recorder`].
#[derive(Debug)]
pub struct Recorder(pub Box<dyn RunRecorder>);

/// Receives the runs of a request.
///
/// It is called on the thread of the guest, so it must not block.
pub trait RunRecorder: Debug + Send + Sync {
    /// Receives a run that has ended. Runs that were cancelled, or that the host refused, are
    /// not passed on.
    fn record(&self, run: &Run<'_>);
}

/// A run that has ended.
#[derive(Debug)]
pub struct Run<'a> {
    /// The module.
    pub module: &'a Module,
    /// The request.
    pub request: &'a Arc<GuestRequest>,
    /// The snapshot that it saw.
    pub snapshot: &'a Arc<Snapshot>,
    /// Its reads.
    pub reads: &'a ReadSet,
    /// Whether no client waits for it, as for the runs of a shadow.
    pub is_background: bool,
    /// Its commands, which may not have been executed.
    pub commands: &'a [Command],
    /// Its response, before the host adds headers, or the reason why there is none.
    pub result: Result<&'a Response<Bytes>, &'a CallError>,
}

/// A run that has ended, with the values that it read by reference to their snapshot.
#[derive(Debug)]
pub struct RunRecord {
    pub(super) module: Module,
    pub(super) request: Arc<GuestRequest>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) reads: ReadSet,
    pub(super) outcome: Outcome,
}

impl Recorder {
    /// Returns the recorder of a request.
    pub(super) fn of(request: &GuestRequest) -> Option<&dyn RunRecorder> {
        let Self(recorder) = request.recorder.as_ref()?.downcast_ref()?;
        Some(&**recorder)
    }
}

impl Run<'_> {
    /// Returns whether the module failed, or responded with a status from 500 on, except 503:
    /// with this, modules say that the state is not known yet.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self.result {
            Ok(response) => response.status().is_server_error() && response.status() != 503,
            Err(error) => error.is_module_failure(),
        }
    }

    /// Returns a record of the run; `None` if the host failed instead of the module. It refers
    /// to the snapshot, and copies only the list of the reads, and the headers of the response.
    #[must_use]
    pub fn to_record(&self) -> Option<RunRecord> {
        Some(RunRecord {
            module: self.module.clone(),
            request: Arc::clone(self.request),
            snapshot: Arc::clone(self.snapshot),
            reads: self.reads.clone(),
            outcome: Outcome::new(self.result, self.commands)?,
        })
    }
}

impl RunRecord {
    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the outcome.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns the reads.
    #[must_use]
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }
}
