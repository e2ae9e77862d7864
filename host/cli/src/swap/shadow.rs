//! `relayer-rest swap --shadow`: its options, its progress, and its report.

use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_common::files;
use relayer_rest_server::control::{ControlClient, ControlClientError};
use relayer_rest_server::registry::{
    Candidate, ExpectedChanges, RunsReport, Shadow, ShadowDifference, ShadowReport, ShadowStatus,
    ShadowTime, SwapReport,
};
use tokio::time::{MissedTickBehavior, interval};

use crate::progress::Progress;
use crate::{Failure, block_on};

/// The maximum size of a file of expected changes that is read, in bytes. The declarations have a
/// lower limit.
const MAX_FILE: u64 = 1 << 20;

/// The interval in which the progress of a shadow is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct ShadowArgs {
    /// Run each distinct request that the active module runs on the candidate as well for this
    /// time, such as 10min, and swap only if no response differs
    #[arg(long, value_name = "DURATION")]
    shadow: Option<ShadowTime>,
    /// File in TOML with the changes of responses that are expected
    #[arg(long, value_name = "FILE", requires = "shadow")]
    expect: Option<PathBuf>,
    /// File for the report as JSON [default: the component's, with the extension
    /// `shadow.json`]
    #[arg(long, value_name = "FILE", requires = "shadow")]
    report: Option<PathBuf>,
    /// Reject the candidate if fewer requests are compared
    #[arg(long, value_name = "N", default_value_t = 1, requires = "shadow")]
    min_requests: u64,
    /// Reject the candidate if its runs take more than this many times the processor time of those
    /// of the active module, which are repeated for that
    #[arg(long, value_name = "N", requires = "shadow")]
    max_slowdown: Option<NonZeroU32>,
    /// End at the first response that differs in a way that is not expected
    #[arg(long, requires = "shadow")]
    abort: bool,
}

/// A shadow, and the file for its report.
pub(super) struct ShadowRequest {
    pub(super) shadow: Shadow,
    report: PathBuf,
}

impl ShadowArgs {
    /// Returns the shadow that is requested, if there is one. Its file of expected changes is
    /// valid, and its report can be written.
    pub(super) fn request(&self, component: &Path) -> Result<Option<ShadowRequest>, Failure> {
        let Some(time) = self.shadow else { return Ok(None) };
        let expected = match &self.expect {
            Some(file) => expected(file)?,
            None => ExpectedChanges::default(),
        };
        let Self { min_requests, max_slowdown, abort, .. } = *self;
        let shadow = Shadow { time, expected, min_requests, max_slowdown, abort };
        let report = self.report.clone().unwrap_or_else(|| component.with_extension("shadow.json"));
        // Not at the end of the shadow, when it is too late to choose another.
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&report)
            .map_err(|error| unwritable(&report, &error))?;
        Ok(Some(ShadowRequest { shadow, report }))
    }
}

pub(crate) fn expected(file: &Path) -> Result<ExpectedChanges, Failure> {
    let name = file.display();
    let bytes = files::read(file, MAX_FILE).map_err(|error| {
        format!(
            "expected changes {name}: cannot be read: {error}; check the path and its permissions"
        )
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("expected changes {name}: not UTF-8; save the file as UTF-8"))?;
    text.parse().map_err(|error| format!("expected changes {name}: {error}").into())
}

fn unwritable(file: &Path, error: &io::Error) -> Failure {
    format!("report {}: cannot be written: {error}; choose another with --report", file.display())
        .into()
}

/// Swaps the module after its shadow, which ends early at an interrupt.
pub(super) fn swap(
    client: &ControlClient,
    mount: &str,
    candidate: Candidate,
    progress: &Progress,
) -> Result<Result<SwapReport, ControlClientError>, Failure> {
    block_on(async {
        let mut swap = std::pin::pin!(client.swap(mount, candidate));
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                swapped = &mut swap => return Ok(swapped),
                interrupt = tokio::signal::ctrl_c() => {
                    interrupt?;
                    // The server has the report on a shadow. A preflight ends with this
                    // command, as without a shadow.
                    let message = "interrupted: nothing has changed; swap again";
                    if is_interrupted || client.cancel_shadow(mount).await.is_err() {
                        return Err(message.into());
                    }
                    is_interrupted = true;
                }
                _ = ticks.tick(), if progress.is_live() => {
                    if let Some(status) = status(client, mount).await {
                        progress.describe(progress_text(&status));
                    }
                }
            }
        }
    })?
}

impl ShadowRequest {
    /// Writes the report to its file.
    pub(super) fn write(&self, report: &SwapReport) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(report).expect("its keys are texts");
        fs::write(&self.report, text + "\n").map_err(|error| unwritable(&self.report, &error))
    }

    /// Returns the line that names the file of the report.
    pub(super) fn line(&self) -> String {
        format!("report: {}", self.report.display())
    }
}

/// Returns the status of the shadow in progress.
async fn status(client: &ControlClient, mount: &str) -> Option<ShadowStatus> {
    let status = client.status().await.ok()?;
    let mount = status.mounts.into_iter().find(|status| status.mount == mount)?;
    mount.candidate?.shadow
}

fn progress_text(status: &ShadowStatus) -> String {
    format!("shadow: {}", status_text(status))
}

/// Returns the counters of a shadow in progress and its remaining time, as a text.
pub(crate) fn status_text(status: &ShadowStatus) -> String {
    let ShadowStatus { ends, tally } = status;
    let end = UNIX_EPOCH + Duration::from_secs(*ends);
    let left = end.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
    let left = humantime::format_duration(Duration::from_secs(left));
    format!(
        "{} requests compared, {} differ, {} of them as expected, {} dropped; ends in {left}",
        tally.requests,
        tally.expected + tally.unexpected,
        tally.expected,
        tally.dropped
    )
}

/// Returns the report of a shadow, as lines.
pub(super) fn lines(report: &ShadowReport) -> Vec<String> {
    let ShadowReport { requests, generations, dropped, frequent, unexpected, expected, .. } =
        report;
    let different = unexpected + expected;
    let mut lines = vec![
        format!(
            "{requests} requests compared on {generations} generations of the state, {frequent} frequent ones once more; {dropped} dropped"
        ),
        format!("{different} responses differ, {expected} of them as expected"),
    ];
    lines.extend(report.differences.iter().flat_map(difference));
    if report.unlisted > 0 {
        lines.push(format!("  {} more differences at other places", report.unlisted));
    }
    lines.extend(report.unseen.iter().map(|change| format!("  expected, but not seen: {change}")));
    lines.push(runs("active", &report.active));
    lines.push(runs("candidate", &report.candidate));
    if let Some(slowdown) = report.slowdown {
        lines.push(format!(
            "the candidate takes {slowdown:.2} times the processor time of the active module"
        ));
    }
    lines
}

fn difference(difference: &ShadowDifference) -> [String; 2] {
    let ShadowDifference { route, kind, count, request, first, .. } = difference;
    let place = difference.pointer.as_ref().or(difference.header.as_ref());
    let place = place.map(|place| format!(" {place}")).unwrap_or_default();
    let expected = if difference.is_expected { ", expected" } else { "" };
    let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
    [
        format!("  {route} {}{place} ({times}{expected})", kind.name()),
        format!("    {request}: {}", first.describe()),
    ]
}

fn runs(name: &str, runs: &RunsReport) -> String {
    let RunsReport { runs, failures, mean_millis, p50_millis, p99_millis, peak_memory } = runs;
    let memory = ByteSize::b(*peak_memory as u64);
    format!(
        "{name:<10}{runs} runs, {failures} failed; mean {mean_millis:.2} ms, p50 up to {p50_millis} ms, p99 up to {p99_millis} ms; up to {memory}"
    )
}
