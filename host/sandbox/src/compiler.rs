//! The compiler process: a command that compiles one component with bounded memory, and
//! returns the code over a pipe.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use bytesize::ByteSize;
use relayer_rest_common::processes;
use rustix::process::{Resource, Rlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::address_space::Reservation;
use super::artefact::Artefact;
use super::componentize::MAX_COMPONENT_SIZE;
use super::engine_config;
use super::load_error::LoadError;

/// The maximum length of a compiler's message, in bytes.
const MAX_STDERR: usize = 4 << 10;

/// A command that calls [`compile`].
#[derive(Debug, Clone)]
pub struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
    env: Option<(&'static str, &'static str)>,
}

/// A compiler process, which is killed when this is dropped.
struct Process(Child);

/// The streams of a process.
struct Pipes {
    stdin: Sender,
    stdout: Receiver,
    stderr: Receiver,
}

impl Compiler {
    /// Creates a compiler from a command that compiles for this process, with bounded
    /// time and memory. It must be of the same build. Its last arguments are two numbers
    /// of bytes, and it must do nothing but call [`compile`] with them, stdin and stdout,
    /// and exit with the status 0, or 1 if that returns `false`. Its priority is that of
    /// the thread which starts it.
    #[must_use]
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { program, args, env: None }
    }

    /// Adds a variable to the environment of the command, such as one that its allocator reads.
    #[must_use]
    pub fn with_env(self, variable: (&'static str, &'static str)) -> Self {
        Self { env: Some(variable), ..self }
    }

    /// Compiles an input in at max this much memory, for memories that reserve this
    /// address space. Dropping the future stops the process.
    pub(super) async fn compile(
        &self,
        name: &str,
        input: &[u8],
        memory: ByteSize,
        reservation: Reservation,
    ) -> Result<Artefact, LoadError> {
        let gave_up = |reason| LoadError::Compiler { name: name.to_owned(), reason, limit: memory };
        let failed = |source| {
            let program = self.program.clone();
            LoadError::NoCompiler { name: name.to_owned(), program, source }
        };
        let (mut process, mut pipes) = self.start(memory, reservation).map_err(failed)?;
        let feed = async {
            // A compiler that does not read all of it reports why.
            pipes.stdin.write_all(input).await.ok();
            drop(pipes.stdin);
        };
        // The code cannot be larger than the memory.
        let max = memory.as_u64();
        let ((), output, errors) =
            tokio::join!(feed, read(pipes.stdout, max), read(pipes.stderr, MAX_STDERR as u64));
        let status = processes::wait(&mut process.0).await.map_err(failed)?;
        match status.code() {
            Some(0) => Artefact::from_process(&output)
                .ok_or_else(|| gave_up("its output is incomplete".to_owned())),
            Some(1) => {
                let reason = text(&output[..output.len().min(MAX_STDERR)]);
                Err(LoadError::Invalid { name: name.to_owned(), reason })
            }
            _ => Err(gave_up(last_words(&text(&errors), status))),
        }
    }

    fn start(&self, memory: ByteSize, reservation: Reservation) -> io::Result<(Process, Pipes)> {
        let child = Command::new(&self.program)
            .args(&self.args)
            .arg(memory.as_u64().to_string())
            .arg(reservation.bytes().to_string())
            // A backtrace of a process without memory needs memory, and never ends.
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LIB_BACKTRACE")
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut process = Process(child);
        let pipes = Pipes::of(&mut process.0)?;
        Ok((process, pipes))
    }
}

impl Pipes {
    /// Takes the pipes of a process that has them, within a runtime.
    fn of(child: &mut Child) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        Ok(Self {
            stdin: Sender::from_owned_fd(child.stdin.take().ok_or_else(missing)?.into())?,
            stdout: Receiver::from_owned_fd(child.stdout.take().ok_or_else(missing)?.into())?,
            stderr: Receiver::from_owned_fd(child.stderr.take().ok_or_else(missing)?.into())?,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended already, which is fine.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Reads a stream up to a number of bytes, and closes it: further writes fail.
async fn read(stream: Receiver, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.take(max).read_to_end(&mut bytes).await.ok();
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Describes why a compiler failed.
fn last_words(errors: &str, status: ExitStatus) -> String {
    match errors.lines().find(|line| !line.is_empty()) {
        Some(line) => format!("{line} ({status})"),
        None => status.to_string(),
    }
}

/// Compiles the component from `input` in at max this much memory, for memories that
/// reserve this many bytes, and writes the code. If the component is not valid, writes
/// the reason, and returns `false`.
///
/// The command of [`Compiler::new`] must do nothing else: its process ends if it needs
/// more memory.
pub fn compile(
    input: impl Read,
    mut output: impl Write,
    memory: ByteSize,
    reservation: u64,
) -> io::Result<bool> {
    confine(memory)?;
    let mut bytes = Vec::new();
    input.take(MAX_COMPONENT_SIZE + 1).read_to_end(&mut bytes)?;
    let reason = match wasmtime::Engine::new(&engine_config::compiling(Reservation::from_bytes(
        reservation,
    ))) {
        Ok(engine) => match Artefact::compile(&engine, "", &bytes) {
            Ok(artefact) => return artefact.write(&mut output).map(|()| true),
            Err(LoadError::Invalid { reason, .. } | LoadError::Encode { reason, .. }) => reason,
            Err(error) => error.to_string(),
        },
        Err(error) => format!("{error:#}"),
    };
    writeln!(output, "{reason}")?;
    Ok(false)
}

/// Confines this process, so that its failure does not affect other processes.
fn confine(memory: ByteSize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // The process ends with its parent, and is the first to be killed when the system
        // runs out of memory.
        let killed = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(killed)?;
        fs::write("/proc/self/oom_score_adj", "1000").ok();
    }
    let both = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(Resource::Core, both(0))?;
    rustix::process::setrlimit(Resource::Data, both(memory.as_u64()))?;
    Ok(())
}
