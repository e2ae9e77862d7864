//! A session: builds and deploys the module after each change of its sources, and prints the
//! changes of its responses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use relayer_rest_sandbox::Module;
use relayer_rest_server::registry::{StepTime, SwapOutcome, SwapReport};
use relayer_rest_state::Snapshot;

use super::build;
use super::deployment::Deployment;
use super::document;
use super::source_files::{SourceChange, SourceFiles};
use crate::exercise::{AuthorRequests, REQUESTS_FILE, exercise, sample_state};
use crate::project::Project;
use crate::{Failure, print, swap};

/// The maximum number of changed files that are named.
const MAX_NAMED: usize = 3;

/// The shortest step whose time is printed.
const MIN_STEP: Duration = Duration::from_millis(50);

/// The development of a module.
pub(super) struct Session {
    project: Project,
    deployment: Deployment,
    /// The address of the server.
    address: String,
    /// The state for which the author expects responses.
    sample: Arc<Snapshot>,
    /// The component of the last build, if there was one.
    module: Option<PathBuf>,
    /// The settings of the module that were printed last.
    settings: Vec<String>,
}

impl Session {
    pub(super) fn new(project: Project, deployment: Deployment, address: String) -> Self {
        let sample = sample_state();
        Self { project, deployment, address, sample, module: None, settings: Vec::new() }
    }

    /// Builds and deploys the module now, and after each change of its sources.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        let mut files = SourceFiles::read(&self.project.folder)?;
        let mut saved_at = SystemTime::now();
        let mut needs_build = true;
        // Tools that are installed first can print nothing for a minute.
        print(&[format!("building {}", self.project.folder.display())])?;
        loop {
            print(&self.update(needs_build, saved_at).await)?;
            let change = files.changed().await?;
            print(&[summary(&change)])?;
            needs_build = change.paths.iter().any(|path| path != Path::new(REQUESTS_FILE));
            (files, saved_at) = (change.files, change.saved_at);
        }
    }

    /// Builds and deploys the module, and returns the lines about it.
    async fn update(&mut self, needs_build: bool, saved_at: SystemTime) -> Vec<String> {
        let start = Instant::now();
        let built = match self.module.take().filter(|_| !needs_build) {
            Some(module) => Ok(module),
            None => build::run(&self.project).await,
        };
        let file = match built {
            Ok(module) => self.module.insert(module).clone(),
            Err(error) => {
                self.deployment.failed(&error.to_string());
                return vec![error.to_string(), self.active()];
            }
        };
        let mut steps = vec![("build".to_owned(), start.elapsed())];
        let mut lines = Vec::new();
        let requests = AuthorRequests::from_folder(&self.project.folder).unwrap_or_else(|error| {
            lines.push(error.to_string());
            AuthorRequests::default()
        });
        match self.deployment.deploy(&file, &requests).await {
            Ok(report) => {
                let elapsed = saved_at.elapsed().unwrap_or_default();
                let step_time = |step: &StepTime| Duration::from_secs_f64(step.millis / 1e3);
                let reported = report.steps.iter();
                steps.extend(reported.map(|step| (step.step.to_string(), step_time(step))));
                lines.extend(self.exercised(&requests).await);
                lines.extend(self.served(&report, &time(elapsed, &steps)));
                lines.extend(self.changed_settings(&file));
            }
            Err(reason) => {
                self.deployment.failed(&reason);
                lines.extend([format!("rejected: {reason}"), self.active()]);
            }
        }
        lines
    }

    /// Exercises the routes of the active build, and returns its failures.
    async fn exercised(&self, requests: &AuthorRequests) -> Vec<String> {
        let Some(module) = self.deployment.module().map(Module::afresh) else { return Vec::new() };
        let (exercise, of_document) = exercise(&module, requests, &self.sample).await;
        let mut lines = exercise.failed_requests();
        let failure = of_document.and_then(|rule| rule.failure);
        lines.extend(failure.map(|failure| format!("FAILED openapi: {failure}")));
        lines.extend(document::problem(&self.project.folder, module.openapi()));
        lines.extend(exercise.undeclared());
        lines.extend(exercise.restrictions(false));
        lines.extend(exercise.warnings());
        lines
    }

    /// Returns the lines about a build that serves now.
    fn served(&self, report: &SwapReport, time: &str) -> Vec<String> {
        if report.outcome == SwapOutcome::Unchanged {
            return vec!["unchanged: this build is active already".to_owned()];
        }
        if report.from.is_none() {
            let path = self.deployment.path().map_or("/", |path| path.as_str());
            let path = path.trim_end_matches('/');
            return vec![format!("served after {time}: http://{}{path}/", self.address)];
        }
        let mut lines = swap::differences(report);
        lines.push(format!("served after {time}"));
        lines
    }

    /// Returns the settings of the module, if they are not those printed last.
    fn changed_settings(&mut self, file: &Path) -> Vec<String> {
        let Some(module) = self.deployment.module() else { return Vec::new() };
        let settings = self.deployment.settings(&module, &self.project.released(file));
        if settings == self.settings {
            return Vec::new();
        }
        let build = self.project.release_command();
        let build = build.map(|build| format!(" after {build}")).unwrap_or_default();
        let mut lines = vec![format!("its settings, for relayer-rest serve --config FILE{build}:")];
        lines.extend(settings.iter().map(|line| format!("  {line}")));
        self.settings = settings;
        lines
    }

    /// Describes the active build, after another one has failed.
    fn active(&self) -> String {
        match self.deployment.module() {
            Some(module) => {
                format!("the last good build stays active: {}", module.digest().short())
            }
            None => "nothing is mounted yet; waiting for a change".to_owned(),
        }
    }
}

/// Returns a time, and its longest steps.
fn time(time: Duration, steps: &[(String, Duration)]) -> String {
    let steps = steps.iter().filter(|(_, time)| *time >= MIN_STEP);
    let steps: Vec<_> =
        steps.map(|(step, time)| format!("{step} {:.1} s", time.as_secs_f64())).collect();
    let time = time.as_secs_f64();
    if steps.is_empty() {
        format!("{time:.1} s")
    } else {
        format!("{time:.1} s ({})", steps.join(", "))
    }
}

/// Names the changed files.
fn summary(change: &SourceChange) -> String {
    let names = change.paths.iter().take(MAX_NAMED).map(|path| path.display().to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    match change.paths.len().saturating_sub(MAX_NAMED) {
        0 => format!("changed: {names}"),
        more => format!("changed: {names} and {more} more"),
    }
}
