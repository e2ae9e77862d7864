//! Runs the build of a project, in a process group that ends with it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_common::processes;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::project::{Project, ProjectError};

/// The maximum size of the names of cargo's outputs, in bytes.
const MAX_OUTPUT: u64 = 64 << 20;

/// The time that a stopped build has to end, before it is killed.
const MAX_STOP: Duration = Duration::from_secs(1);

/// The time between two checks whether it has ended.
const STOP_POLL: Duration = Duration::from_millis(5);

/// A build has no component.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error(
        "build: cannot start {program}: {source}; install it, or give another command with --build"
    )]
    Start { program: String, source: io::Error },
    #[error("build failed ({0})")]
    Failed(ExitStatus),
    #[error(transparent)]
    Module(#[from] ProjectError),
}

/// A build. Dropped before it has ended, it stops, with all processes that it has started.
struct Build {
    child: Child,
    has_ended: bool,
}

/// Builds a project, and returns its component. The messages of the tools are on stderr.
pub(super) async fn run(project: &Project) -> Result<PathBuf, BuildError> {
    let mut command = project.command();
    let program = command.get_program().display().to_string();
    let failed = |source| BuildError::Start { program: program.clone(), source };
    let stdout = if project.has_json() { Stdio::piped() } else { io::stderr().into() };
    // Signals of the terminal go to this process only, which stops the build.
    command.stdin(Stdio::null()).stdout(stdout).process_group(0);
    let mut build = Build { child: command.spawn().map_err(failed)?, has_ended: false };
    let mut outputs = Vec::new();
    if let Some(stdout) = build.child.stdout.take() {
        let stdout = Receiver::from_owned_fd(stdout.into()).map_err(failed)?;
        // Without its end, the component is not found.
        stdout.take(MAX_OUTPUT).read_to_end(&mut outputs).await.ok();
    }
    let status = processes::wait(&mut build.child).await.map_err(failed)?;
    build.has_ended = true;
    if !status.success() {
        return Err(BuildError::Failed(status));
    }
    Ok(project.module(String::from_utf8_lossy(&outputs).lines())?)
}

impl Drop for Build {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let group = Pid::from_child(&self.child);
        kill_process_group(group, Signal::TERM).ok();
        let start = Instant::now();
        while let Ok(None) = self.child.try_wait()
            && start.elapsed() < MAX_STOP
        {
            thread::sleep(STOP_POLL);
        }
        // The processes that are left ignore the first signal.
        kill_process_group(group, Signal::KILL).ok();
        // Its number is in use until then.
        self.child.wait().ok();
    }
}
