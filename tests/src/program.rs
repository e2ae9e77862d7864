//! The command, as a process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use relayer_rest_host::control::ControlClient;
use relayer_rest_host::registry::MountState;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::client::Client;
use crate::process::send_signal;
use crate::wait::{until_async, within};

/// The command with its arguments, before it is started.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    launcher: Vec<String>,
    socket: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

/// A running server.
pub struct Serving {
    /// The process.
    pub child: Child,
    /// The first line of its output, without the line end.
    pub line: String,
    /// The path of its control socket.
    pub socket: PathBuf,
    path: PathBuf,
    stdout: BufReader<ChildStdout>,
    stderr: Option<BufReader<ChildStderr>>,
    log: String,
}

/// A process of the command, of which nothing is awaited yet.
pub struct Spawned {
    /// The process.
    pub child: Child,
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

/// Returns a path for a control socket: the tests must not touch a user's socket.
fn new_socket() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("relayer-rest-{}-{number}.sock", std::process::id()))
}

impl Program {
    /// Returns the command with these arguments.
    #[must_use]
    pub fn new(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        Self::at(Self::path(), args)
    }

    /// Returns the command that serves on a free port.
    #[must_use]
    pub fn server() -> Self {
        Self::new(["--listen", "127.0.0.1:0"])
    }

    /// Returns another executable of the command, with these arguments.
    #[must_use]
    pub fn at(path: PathBuf, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        let program = Self {
            path,
            args: Vec::new(),
            launcher: Vec::new(),
            socket: new_socket(),
            variables: Vec::new(),
        };
        program.args(args)
    }

    /// Returns the path of the command, which cargo builds next to the tests.
    #[must_use]
    pub fn path() -> PathBuf {
        let test = std::env::current_exe().unwrap();
        let is_deps = |folder: &&Path| !folder.ends_with("deps");
        let folder = test.ancestors().skip(1).find(is_deps).unwrap();
        folder.join("relayer-rest-under-test")
    }

    /// Copies the libraries that the command needs to the same places under another root.
    pub fn copy_libraries(root: &Path) {
        let libraries =
            std::process::Command::new("ldd").arg(Self::path()).output().unwrap().stdout;
        let libraries = String::from_utf8(libraries).unwrap();
        for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            let copy = root.join(path.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(path, copy).unwrap();
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets the control socket.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = path.into();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts the command from a shell that runs this script first.
    #[must_use]
    pub fn after(self, script: &str) -> Self {
        self.launched_by(&["/bin/sh", "-ec", &format!("{script}\nexec \"$0\" \"$@\"")])
    }

    /// Starts the command through another program, which gets it as its last arguments.
    #[must_use]
    pub fn launched_by(mut self, launcher: &[&str]) -> Self {
        self.launcher.splice(..0, launcher.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Starts the command with a socket of a service manager.
    ///
    /// # Panics
    ///
    /// Panics if the socket cannot be passed to processes.
    #[must_use]
    pub fn listening_on(self, listener: &TcpListener) -> Self {
        // The processes that this one starts get the socket, too.
        fcntl_setfd(listener, FdFlags::empty()).unwrap();
        let socket = listener.as_raw_fd();
        let script = format!("export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\" 3<&{socket}");
        self.launched_by(&["bash", "-c", &script])
    }

    /// Returns the path of the control socket.
    #[must_use]
    pub fn socket_path(&self) -> &Path {
        &self.socket
    }

    /// Returns the command for a test that sets the process's streams.
    #[must_use]
    pub fn command(&self) -> Command {
        let words = self.launcher.iter().map(AsRef::as_ref);
        let mut words =
            words.chain([self.path.as_os_str()]).chain(self.args.iter().map(AsRef::as_ref));
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdin(Stdio::null()).env_remove("RUST_LOG").kill_on_drop(true);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
            command.env_remove(name);
        }
        command.env("RELAYER_REST_CONTROL", &self.socket);
        // Not in `target/`: a checkout may be writable by a group, which a code cache must
        // not be.
        let user = rustix::process::geteuid().as_raw();
        let cache = std::env::temp_dir().join(format!("relayer-rest-tests-{user}"));
        command.env("RELAYER_REST_CODE_CACHE", cache);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Runs the command until it ends.
    pub async fn run(self) -> Ended {
        let ended = within(&format!("the end of {:?}", self.args), self.command().output()).await;
        ended.unwrap().into()
    }

    /// Starts the command without waiting for anything.
    #[must_use]
    pub fn spawn(&self) -> Spawned {
        let mut command = self.command();
        Spawned { child: command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap() }
    }

    /// Starts the command, and waits until it prints the address that it listens on, and until
    /// its extensions are loaded.
    ///
    /// # Panics
    ///
    /// Panics if it ends before.
    pub async fn start(self) -> Serving {
        let awaited = format!("the address of {:?}", self.args);
        match self.try_start().await {
            Ok(serving) => {
                serving.loaded().await;
                serving
            }
            Err(ended) => panic!("instead of {awaited}: {ended:?}"),
        }
    }

    /// Starts the command, and waits until it prints the address that it listens on.
    ///
    /// # Errors
    ///
    /// Returns the result of the process if it ends before.
    pub async fn try_start(self) -> Result<Serving, Ended> {
        let spawned = self.spawn();
        self.listening(spawned).await
    }

    /// Waits until a process of this command prints the address that it listens on.
    ///
    /// # Errors
    ///
    /// Returns the result of the process if it ends before.
    pub async fn listening(self, spawned: Spawned) -> Result<Serving, Ended> {
        let Spawned { mut child } = spawned;
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let awaited = format!("the address of {:?}", self.args);
        within(&awaited, stdout.read_line(&mut line)).await.unwrap();
        if line.pop() != Some('\n') {
            return Err(child.wait_with_output().await.unwrap().into());
        }
        let stderr = child.stderr.take().map(BufReader::new);
        let path = self.path;
        let socket = self.socket;
        Ok(Serving { child, line, socket, path, stdout, stderr, log: String::new() })
    }
}

impl Spawned {
    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.child.id().unwrap().try_into().unwrap()
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    /// Waits until the process ends.
    pub async fn ended(self) -> Ended {
        within("the end of the process", self.child.wait_with_output()).await.unwrap().into()
    }
}

impl Serving {
    /// Returns the line of its first listener, such as `http://127.0.0.1:3000`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.line
    }

    /// Returns the address that the server listens on.
    ///
    /// # Panics
    ///
    /// Panics if it has TLS, or is a Unix socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.line.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Returns the number of connections that wait in each socket of the address to be accepted.
    ///
    /// # Panics
    ///
    /// Panics if the address is not one of IPv4.
    #[must_use]
    pub fn accept_queues(&self) -> Vec<u32> {
        let port = format!(":{:04X}", self.address().port());
        let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
        let waiting = sockets.lines().filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The state of sockets that listen.
            let is_own = fields[1].ends_with(&port) && fields[3] == "0A";
            let (_, waiting) = is_own.then(|| fields[4].split_once(':').unwrap())?;
            Some(u32::from_str_radix(waiting, 16).unwrap())
        });
        let waiting: Vec<_> = waiting.collect();
        assert!(!waiting.is_empty());
        waiting
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.child.id().unwrap().try_into().unwrap()
    }

    /// Opens a new HTTP/1.1 connection.
    pub async fn connect(&self) -> Client {
        Client::http1(self.address()).await
    }

    /// Waits until no extension is being loaded. Without a control socket, does nothing.
    async fn loaded(&self) {
        let client = self.control_client();
        let is_loading = async || {
            let status = client.status().await;
            status.is_ok_and(|status| {
                status.mounts.iter().any(|mount| mount.state == MountState::Loading)
            })
        };
        until_async("the extensions are loaded", async || !is_loading().await).await;
    }

    /// Returns the header that names the module of a response.
    pub async fn label(&self, path: &str) -> String {
        self.connect().await.get(path).await.header("x-relayer-module").to_owned()
    }

    /// Returns a client of its control socket.
    #[must_use]
    pub fn control_client(&self) -> ControlClient {
        ControlClient::new(&self.socket)
    }

    /// Runs a command that controls this server.
    pub async fn control(&self, args: &[&str]) -> Ended {
        // The log of a long command has its progress.
        let program = Program::at(self.path.clone(), args).env("RUST_LOG", "warn");
        program.socket(&self.socket).run().await
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    /// Returns the lines of the log that were read so far.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Waits until a line of the output contains this text, and returns the lines up to it.
    ///
    /// # Panics
    ///
    /// Panics if the output ends before.
    pub async fn printed(&mut self, text: &str) -> String {
        let mut lines = String::new();
        loop {
            let start = lines.len();
            let awaited = format!("a line with {text:?} in the output, after {lines:?}");
            let read = within(&awaited, self.stdout.read_line(&mut lines)).await.unwrap();
            assert!(read > 0, "the output ends before {awaited}");
            if lines[start..].contains(text) {
                return lines;
            }
        }
    }

    /// Stops reading the log.
    pub fn close_log(&mut self) {
        self.stderr = None;
    }

    /// Waits until the log has a line with this text, after the lines that were read so
    /// far.
    ///
    /// # Panics
    ///
    /// Panics if the log ends before.
    pub async fn logged(&mut self, text: &str) -> String {
        let awaited = format!("a line with {text:?} in the log");
        loop {
            let start = self.log.len();
            let stderr = self.stderr.as_mut().unwrap();
            let read = within(&awaited, stderr.read_line(&mut self.log)).await.unwrap();
            assert!(read > 0, "the log ends before {awaited}: {}", self.log);
            if self.log[start..].contains(text) {
                return self.log[start..].to_owned();
            }
        }
    }

    /// Waits until the process ends. `stdout` is the output after the first line.
    pub async fn ended(mut self) -> Ended {
        let mut rest = String::new();
        let awaited = "the end of the server";
        within(awaited, self.stdout.read_to_string(&mut rest)).await.unwrap();
        if let Some(mut stderr) = self.stderr {
            within(awaited, stderr.read_to_string(&mut self.log)).await.unwrap();
        }
        let status = within(awaited, self.child.wait()).await.unwrap().code();
        Ended { status, stdout: rest, stderr: self.log }
    }

    /// Stops the server, and checks that it ends with 0.
    ///
    /// # Panics
    ///
    /// Panics if it ends with another status.
    pub async fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        let ended = self.ended().await;
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        ended
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
