//! Repeats the run of a capsule.

use std::sync::{Arc, Mutex, PoisonError};

use relayer_rest_state::Snapshot;

use super::redaction::without_urls;
use super::{Capsule, CapsuleError};
use crate::call_error::CallError;
use crate::debug_output::DebugOutput;
use crate::module::Module;
use crate::outcome::Outcome;
use crate::request::GuestRequest;
use crate::run_permit::RunPermit;
use crate::run_record::{Recorder, Run, RunRecord, RunRecorder};

/// The repeated run of a capsule.
#[derive(Debug)]
pub struct Replay {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the outcome is the one of the capsule.
    pub is_same: bool,
    /// Whether the module is the one of the capsule.
    pub is_same_module: bool,
    /// The reads whose values the capsule does not have, because another module made it. They
    /// are not known to this module.
    pub missing: Vec<String>,
}

/// Keeps the record of a run.
#[derive(Debug, Default)]
struct Keep(Arc<Mutex<Option<RunRecord>>>);

impl RunRecorder for Keep {
    fn record(&self, run: &Run<'_>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = run.to_record();
    }
}

impl RunRecord {
    /// Runs a module for a request and a snapshot, as a background run, and records the run.
    ///
    /// # Errors
    /// Returns an error if the host fails instead of the module.
    pub async fn from_run(
        module: &Module,
        mut request: GuestRequest,
        snapshot: Arc<Snapshot>,
    ) -> Result<Self, CallError> {
        let kept = Arc::default();
        let recorder = Recorder(Box::new(Keep(Arc::clone(&kept))));
        request.recorder = Some(Arc::new(recorder));
        let permit = RunPermit::acquire_background(module).await?;
        let ran = permit.execute(Arc::new(request), snapshot).await;
        let record = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (record, ran) {
            (Some(record), _) => Ok(record),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => unreachable!("a run with a response is recorded"),
        }
    }
}

impl Capsule {
    /// Repeats the run with a module, as a background run, with outputs for debuggers.
    ///
    /// # Errors
    /// Returns an error if the capsule is invalid, and in the inner result if the host fails.
    pub async fn replay(
        &self,
        module: &Module,
        debug: &DebugOutput,
    ) -> Result<Result<Replay, CallError>, CapsuleError> {
        let mut request = self.request()?;
        request.debug_output = Some(debug.clone());
        let snapshot = self.snapshot()?;
        let module = module.clone().mounted_at(&self.module.mount);
        let ran = RunRecord::from_run(&module, request, snapshot).await;
        Ok(ran.map(|record| {
            // As in the capsule: a module can make URLs of its own.
            let outcome = record.outcome.map_texts(without_urls);
            Replay {
                is_same: outcome == self.outcome,
                is_same_module: module.digest() == self.module.sha256,
                missing: self.state.missing(&record.reads),
                outcome,
            }
        }))
    }
}
