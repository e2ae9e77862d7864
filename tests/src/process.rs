//! Processes of the system: children, priorities and signals.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, getpriority_process, kill_process};

use crate::wait::until;

/// Returns the child processes of a process, including dead ones that are not reaped.
#[must_use]
pub fn children(process: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |number: &i32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{process}"))
    };
    numbers.filter(is_child).collect()
}

/// Returns the arguments of a process, which differ from those of its parent as soon as
/// it executes another program. They are empty if the process has ended.
fn arguments(process: i32) -> Vec<u8> {
    fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default()
}

/// Waits until a process has a child with a program of its own, such as a compiler, and
/// returns it. The parent waits until the program is executed, so a child must not be
/// stopped before.
///
/// # Panics
///
/// Panics if the process has more than one child.
pub async fn started_child(process: i32) -> i32 {
    let mut found = Vec::new();
    let is_started = || {
        found = children(process);
        found.iter().any(|child| arguments(*child) != arguments(process))
    };
    until("the process starts a child", is_started).await;
    let [child] = found[..] else { panic!("more than one child: {found:?}") };
    child
}

/// Sends a signal to a process.
pub fn send_signal(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// Returns the nice value of a process or thread, from its `stat` file.
pub fn priority(file: impl AsRef<Path>) -> String {
    let stat = fs::read_to_string(file).unwrap();
    // After the name, which is in parentheses.
    stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().to_owned()
}

/// Returns the nice value of a host's threads with a lower priority: 10, or that of the tests if it
/// is higher.
#[must_use]
pub fn lower_priority() -> String {
    getpriority_process(None).unwrap().max(10).to_string()
}

/// Returns the nice values of the threads of a process with this name.
#[must_use]
pub fn thread_priorities(process: i32, name: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .map(|thread| thread.unwrap().path())
        .filter(|thread| {
            // It may have ended since.
            fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
        .map(|thread| priority(thread.join("stat")))
        .collect()
}
