//! Compiling in a process of its own.
//!
//! What is being compiled cannot be stopped, and a component of some hundred
//! kilobytes can be made to take gigabytes and minutes. A process can be
//! stopped, and takes nothing with it when it has too much. What it compiled
//! it leaves in the code cache, where the server finds it at once.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use rustix::process::{Resource, Rlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use wasmtime::component::Component;

use super::address_space::Reservation;
use super::load::MOST_BYTES;
use super::load_error::LoadError;
use super::{encode, engine};

/// The most that is read of what a compiler says.
const MOST_SAID: u64 = 4 << 10;

/// The time between two looks whether a process that was killed is gone.
const GONE: Duration = Duration::from_millis(1);

/// A folder for compiled code, and what fills it.
#[derive(Debug, Clone)]
pub struct CodeCache {
    pub(super) folder: PathBuf,
    compiler: Option<Compiler>,
}

/// A command that calls [`compile`].
#[derive(Debug, Clone)]
struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
}

/// A process that is gone with this.
struct Process(Child);

impl CodeCache {
    /// A folder. Who can write to it can have code run by this process. It has
    /// to be absolute; it is made where it is not there.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, compiler: None }
    }

    /// Has the candidates of swaps compiled by a process of their own, whose
    /// time and memory are bounded. It is to be of the same build as this one,
    /// and is given the folder and two numbers of bytes as its last arguments,
    /// and the component on stdin: all that [`compile`] asks for. An error it
    /// prints on stdout, with the status 1. Its priority is that of the thread
    /// which asks.
    #[must_use]
    pub fn with_compiler(mut self, program: PathBuf, args: Vec<OsString>) -> Self {
        self.compiler = Some(Compiler { program, args });
        self
    }

    /// Compiles a component apart, where there is a compiler. It is stopped
    /// when what is returned is dropped.
    pub(super) async fn fill(
        &self,
        name: &str,
        component: &[u8],
        memory: ByteSize,
        reservation: Reservation,
    ) -> Result<(), LoadError> {
        let Some(compiler) = &self.compiler else { return Ok(()) };
        let gave_up = |reason| LoadError::Compiler { name: name.to_owned(), reason, limit: memory };
        let failed = |error: io::Error| gave_up(format!("it cannot be run: {error}"));
        let mut process = compiler.start(&self.folder, memory, reservation).map_err(failed)?;
        let (input, output, errors) =
            (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
        let feed = async {
            // Where it does not want all of it, it says why.
            if let Some(mut input) = input {
                input.write_all(component).await.ok();
            }
        };
        let ((), reason, errors) = tokio::join!(feed, text(output), text(errors));
        let status = process.0.wait().await.map_err(failed)?;
        match status.code() {
            Some(0) => Ok(()),
            Some(1) => Err(LoadError::Invalid { name: name.to_owned(), reason }),
            _ => Err(gave_up(last_words(&errors, status))),
        }
    }
}

impl Compiler {
    fn start(
        &self,
        folder: &Path,
        memory: ByteSize,
        reservation: Reservation,
    ) -> io::Result<Process> {
        Command::new(&self.program)
            .args(&self.args)
            .arg(folder)
            .arg(memory.as_u64().to_string())
            .arg(reservation.bytes().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to be done where it is gone already.
        self.0.start_kill().ok();
        while let Ok(None) = self.0.try_wait() {
            thread::sleep(GONE);
        }
    }
}

async fn text(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST_SAID).read_to_end(&mut bytes).await.ok();
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Why it did not come to its end.
fn last_words(errors: &str, status: ExitStatus) -> String {
    match errors.lines().find(|line| !line.is_empty()) {
        Some(line) => format!("{line} ({status})"),
        None => status.to_string(),
    }
}

/// Compiles the component that it reads into a folder, in at most so much
/// memory, for memories that reserve so many bytes. This is all that a process
/// is to do that was given to [`CodeCache::with_compiler`]; where it needs
/// more memory, it is gone.
pub fn compile(
    component: impl Read,
    folder: &Path,
    memory: ByteSize,
    reservation: u64,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    confine(memory).map_err(failed)?;
    let mut bytes = Vec::new();
    component.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let bytes = encode::component("", &bytes).map_err(|error| match error {
        LoadError::Encode { reason, .. } => reason,
        error => error.to_string(),
    })?;
    let cache = engine::cache(folder).map_err(|error| error.to_string())?;
    let engine =
        wasmtime::Engine::new(&engine::compiling(Some(cache), Reservation::of_bytes(reservation)));
    let compiled = engine.and_then(|engine| Component::from_binary(&engine, &bytes));
    compiled.map(drop).map_err(|error| format!("{error:#}"))
}

/// Whatever becomes of this process, others do not notice.
fn confine(memory: ByteSize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // It has nobody to work for when its parent is gone; and when the
        // system runs out of memory, this is the process to do without.
        let killed = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(killed)?;
        fs::write("/proc/self/oom_score_adj", "1000").ok();
    }
    let most = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(Resource::Core, most(0))?;
    rustix::process::setrlimit(Resource::Data, most(memory.as_u64()))?;
    Ok(())
}
