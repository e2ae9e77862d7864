//! Obtains compiled code: from the code cache, or from the compiler.
//!
//! A running compilation cannot be stopped, and a component of some hundred kilobytes can
//! be made to take gigabytes and minutes. Components that are not bundled with the host
//! are therefore compiled in a separate process, with or without a code cache: a process
//! can be stopped, and affects no other one when it runs out of memory. It returns the
//! code over a pipe.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use rustix::process::{Resource, Rlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::address_space::Reservation;
use super::artefact::Artefact;
use super::code_cache::{CodeCache, Key};
use super::componentize;
use super::engine::{self, Engine};
use super::load::MAX_COMPONENT_SIZE;
use super::load_error::LoadError;

/// The maximum length of a compiler's message, in bytes.
const MAX_STDERR: usize = 4 << 10;

/// The time between two checks whether a killed process has ended.
const GONE: Duration = Duration::from_millis(1);

/// A command that calls [`compile`].
#[derive(Debug, Clone)]
pub struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
}

/// A compiler process, which is killed when this is dropped.
struct Process(Child);

/// The entry of an input in the engine's code cache, if the engine has one.
struct Slot<'a>(Option<(&'a CodeCache, Key)>);

/// Returns the code of a component that can be trusted to compile within
/// bounds. Without an entry in the code cache, it is compiled on this thread.
pub(super) fn compile_here(
    engine: &Engine,
    name: &str,
    input: &[u8],
) -> Result<Artefact, LoadError> {
    let slot = Slot::new(engine, input);
    match slot.get() {
        Some(artefact) => Ok(artefact),
        None => Ok(slot.put(Artefact::compile(&engine.wasmtime, name, input)?)),
    }
}

/// Returns the code of any component. Without an entry in the code cache, the engine's
/// compiler compiles it in at most this much memory. Dropping the future stops it.
pub(super) async fn compile_apart(
    engine: &Engine,
    name: &str,
    input: &[u8],
    memory: ByteSize,
) -> Result<Artefact, LoadError> {
    let Some(compiler) = &engine.options.compiler else {
        return compile_here(engine, name, input);
    };
    componentize::check(name, input)?;
    let slot = Slot::new(engine, input);
    match slot.get() {
        Some(artefact) => Ok(artefact),
        None => Ok(slot.put(compiler.compile(name, input, memory, engine.reservation).await?)),
    }
}

impl<'a> Slot<'a> {
    fn new(engine: &'a Engine, input: &[u8]) -> Self {
        let cache = engine.options.code_cache.as_ref();
        Self(cache.map(|cache| (cache, Key::new(&engine.wasmtime, input))))
    }

    fn get(&self) -> Option<Artefact> {
        self.0.and_then(|(cache, key)| cache.get(key))
    }

    fn put(&self, artefact: Artefact) -> Artefact {
        if let Some((cache, key)) = self.0 {
            cache.put(key, &artefact);
        }
        artefact
    }
}

impl Compiler {
    /// Creates a compiler from a command that compiles for this process, with bounded
    /// time and memory. It must be of the same build. Its last arguments are two numbers
    /// of bytes, and it must do nothing but call [`compile`] with them, stdin and stdout,
    /// and exit with the status 0, or 1 if that returns `false`. Its priority is that of
    /// the thread which starts it.
    #[must_use]
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { program, args }
    }

    async fn compile(
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
        let mut process = self.start(memory, reservation).map_err(failed)?;
        let (stdin, stdout, stderr) =
            (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
        let feed = async {
            // A compiler that does not read all of it reports why.
            if let Some(mut stdin) = stdin {
                stdin.write_all(input).await.ok();
            }
        };
        // The code cannot be larger than the memory.
        let most = memory.as_u64();
        let ((), output, errors) =
            tokio::join!(feed, read(stdout, most), read(stderr, MAX_STDERR as u64));
        let status = process.0.wait().await.map_err(failed)?;
        match status.code() {
            Some(0) => Artefact::from_process(output)
                .ok_or_else(|| gave_up("its output is incomplete".to_owned())),
            Some(1) => {
                let reason = text(&output[..output.len().min(MAX_STDERR)]);
                Err(LoadError::Invalid { name: name.to_owned(), reason })
            }
            _ => Err(gave_up(last_words(&text(&errors), status))),
        }
    }

    fn start(&self, memory: ByteSize, reservation: Reservation) -> io::Result<Process> {
        Command::new(&self.program)
            .args(&self.args)
            .arg(memory.as_u64().to_string())
            .arg(reservation.bytes().to_string())
            // A backtrace of a process without memory needs memory, and never ends.
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LIB_BACKTRACE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended already, which is fine.
        self.0.start_kill().ok();
        while let Ok(None) = self.0.try_wait() {
            thread::sleep(GONE);
        }
    }
}

/// Reads a stream up to a number of bytes, and closes it: further writes fail.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most).read_to_end(&mut bytes).await.ok();
    }
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

/// Compiles the component from `input` in at most this much memory, for memories that
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
    let reason = match wasmtime::Engine::new(&engine::compiling(Reservation::of_bytes(reservation)))
    {
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
    let most = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(Resource::Core, most(0))?;
    rustix::process::setrlimit(Resource::Data, most(memory.as_u64()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Compiler, LoadError};
    use crate::module::{DEFAULT_MODULE, Engine, EngineOptions, Limits, Module};
    use bytesize::ByteSize;
    use std::path::Path;

    /// Loads a module with a shell script as the compiler, and returns the error.
    async fn load(program: &str, script: &str) -> LoadError {
        let args = vec!["-c".into(), script.into()];
        let compiler = Some(Compiler::new(Path::new(program).into(), args));
        let engine = EngineOptions { compiler, ..(&Limits::default()).into() };
        let engine = Engine::with(engine).unwrap();
        let memory = ByteSize::mib(1);
        Module::from_untrusted_bytes(&engine, "m", DEFAULT_MODULE, memory).await.unwrap_err()
    }

    #[tokio::test]
    async fn what_a_compiler_returns_is_bounded_and_complete() {
        for (script, part) in [
            // It is stopped, because its output is endless.
            ("cat /dev/zero", "gave up"),
            ("cat >&2 /dev/zero", "gave up"),
            ("true", "incomplete"),
            ("cat > /dev/null; head -c 100 /dev/zero", "incomplete"),
            ("echo reason >&2; exit 3", "reason (exit status: 3)"),
            ("kill -9 $$", "signal: 9"),
        ] {
            let error = load("/bin/sh", script).await;
            assert!(matches!(error, LoadError::Compiler { .. }), "{script}: {error}");
            assert!(error.to_string().contains(part), "{script}: {error}");
        }
        let error = load("/bin/sh", "cat > /dev/null; echo reason; exit 1").await;
        let LoadError::Invalid { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, "reason");
        // Output that is not code is not executed.
        let error = load("/bin/sh", "cat > /dev/null; head -c 16 /dev/zero").await;
        assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    }

    #[tokio::test]
    async fn without_its_compiler_an_engine_compiles_nothing() {
        let error = load("/nowhere/compiler", "").await;
        assert!(matches!(error, LoadError::NoCompiler { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("the compiler /nowhere/compiler cannot be started: No such file")
        );
    }
}
