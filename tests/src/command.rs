//! The command, as a process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// A process that serves.
pub struct Serving {
    /// The process.
    pub child: Child,
    /// The first line of its output, without the line end.
    pub line: String,
    /// The path of its control socket.
    pub control: PathBuf,
    stdout: BufReader<ChildStdout>,
    stderr: Option<BufReader<ChildStderr>>,
    log: String,
}

/// The result of a process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, if there is one.
    pub status: Option<i32>,
    /// The output on stdout.
    pub stdout: String,
    /// The output on stderr.
    pub stderr: String,
}

/// Waits up to three minutes, then panics: the process may have to wait for its turn to
/// compile.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_mins(3), future).await.expect("the process does it within three minutes")
}

/// Returns the path of a socket of its own: the tests must not touch a user's socket.
fn control_socket() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("relayer-rest-{}-{number}.sock", std::process::id()))
}

fn command<S: AsRef<OsStr>>(program: &Path, args: &[S], control: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG").kill_on_drop(true);
    command.env("RELAYER_REST_CONTROL", control);
    // Not in `target/`: a checkout may be writable by a group, which a code cache must
    // not be.
    let user = rustix::process::geteuid().as_raw();
    let cache = std::env::temp_dir().join(format!("relayer-rest-tests-{user}"));
    command.env("RELAYER_REST_CODE_CACHE", cache);
    command
}

/// Runs the command until it ends.
pub async fn run<S: AsRef<OsStr>>(program: &Path, args: &[S]) -> Ended {
    in_time(command(program, args, &control_socket()).output()).await.unwrap().into()
}

/// Runs the command until it ends, with the control socket of another process.
pub async fn run_for<S: AsRef<OsStr>>(program: &Path, args: &[S], control: &Path) -> Ended {
    in_time(command(program, args, control).output()).await.unwrap().into()
}

/// Starts the command and waits for its first line.
pub async fn serve<S: AsRef<OsStr>>(program: &Path, args: &[S]) -> Serving {
    serve_at(program, args, control_socket()).await
}

/// Starts the command with this control socket, and waits for its first line.
pub async fn serve_at<S: AsRef<OsStr>>(program: &Path, args: &[S], control: PathBuf) -> Serving {
    let mut command = command(program, args, &control);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    in_time(stdout.read_line(&mut line)).await.unwrap();
    match line.strip_suffix('\n') {
        Some(line) => Serving {
            line: line.to_owned(),
            stdout,
            stderr: child.stderr.take().map(BufReader::new),
            log: String::new(),
            control,
            child,
        },
        None => panic!("{:?}", Ended::from(child.wait_with_output().await.unwrap())),
    }
}

impl Serving {
    /// Returns the address that the process serves on.
    #[must_use]
    pub fn address(&self) -> std::net::SocketAddr {
        self.line.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.child.id().unwrap().try_into().unwrap()
    }

    /// Returns the lines of the log that were read so far.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Stops reading the log.
    pub fn close_log(&mut self) {
        self.stderr = None;
    }

    /// Waits until the log has a line with this text.
    pub async fn logged(&mut self, text: &str) {
        loop {
            let start = self.log.len();
            let stderr = self.stderr.as_mut().unwrap();
            let read = in_time(stderr.read_line(&mut self.log)).await.unwrap();
            assert!(read > 0, "{text} is not in: {}", self.log);
            if self.log[start..].contains(text) {
                return;
            }
        }
    }

    /// Waits until the process ends. `stdout` is the output after the first line.
    pub async fn ended(mut self) -> Ended {
        let mut rest = String::new();
        in_time(self.stdout.read_to_string(&mut rest)).await.unwrap();
        if let Some(mut stderr) = self.stderr {
            stderr.read_to_string(&mut self.log).await.unwrap();
        }
        let status = self.child.wait().await.unwrap().code();
        Ended { status, stdout: rest, stderr: self.log }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
