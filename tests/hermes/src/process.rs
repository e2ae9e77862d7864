//! A child process with a log, which ends with the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, thread};

/// The lines of a log that a failed test shows.
const SHOWN: usize = 60;

/// A running process.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a process that appends its standard error to a log.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        let child = command.stderr(file).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, log: log.to_owned() }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if thread::panicking() {
            let log = fs::read(&self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<_> = log.lines().collect();
            let shown = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
            eprintln!("the end of {}:\n{shown}", self.log.display());
        }
    }
}

/// Returns the program that an environment variable names.
pub(crate) fn program(variable: &str) -> PathBuf {
    let program = env::var_os(variable);
    program.unwrap_or_else(|| panic!("{variable} is not set; use tests/hermes/run")).into()
}
