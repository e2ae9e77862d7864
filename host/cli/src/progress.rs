//! The progress of long steps: a bar on a terminal, and lines of the log elsewhere.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing::info;

/// The interval between two lines of the log. Most steps are shorter, and have none.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The interval in which the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// The progress of a command, which is shown until this is dropped.
pub(super) struct Progress(Option<Output>);

enum Output {
    Bar(ProgressBar),
    Log(Sender<String>),
}

impl Progress {
    /// Begins a command with this number of steps.
    pub(super) fn new(steps: u64) -> Self {
        if io::stderr().is_terminal() {
            return Self(Some(Output::Bar(bar(steps))));
        }
        let (steps, started) = channel::<String>();
        // Without a thread, nothing is shown.
        let logging = thread::Builder::new().name("progress".to_owned()).spawn(move || {
            let mut current: Option<(String, Instant)> = None;
            loop {
                match started.recv_timeout(LOG_INTERVAL) {
                    Ok(step) => current = Some((step, Instant::now())),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        if let Some((step, start)) = &current {
                            info!(step, elapsed = ?start.elapsed(), "in progress");
                        }
                    }
                }
            }
        });
        Self(logging.is_ok().then_some(Output::Log(steps)))
    }

    /// Returns whether the progress is shown all the time, and not only from time to time.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.0, Some(Output::Bar(_)))
    }

    /// Changes the description of the step, if it is shown all the time.
    pub(super) fn describe(&self, step: impl Into<String>) {
        if let Some(Output::Bar(bar)) = &self.0 {
            bar.set_message(step.into());
        }
    }

    /// Begins a step, after the one before it.
    pub(super) fn step(&self, step: impl Into<String>) {
        match &self.0 {
            Some(Output::Bar(bar)) => {
                // The first step does not complete another.
                if !bar.message().is_empty() {
                    bar.inc(1);
                }
                bar.set_message(step.into());
            }
            Some(Output::Log(steps)) => drop(steps.send(step.into())),
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Output::Bar(bar)) = &self.0 {
            // The command prints its result there.
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("{spinner} {wide_msg} [{bar:20}] {pos}/{len} {elapsed}");
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(TICK);
    bar
}
