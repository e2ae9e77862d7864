//! The cores of servers and loads: half of them each.

use std::panic::resume_unwind;
use std::thread;

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The maximum number of cores of a server.
const MAX_OF_SERVER: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Cores {
    /// The first half, at most two.
    Server,
    /// All others.
    Load,
}

impl Cores {
    /// Returns their number.
    pub(crate) fn count(self) -> usize {
        usize::try_from(self.set().count()).unwrap()
    }

    /// Runs a function on a thread with these cores, which the threads that it starts have, too.
    pub(crate) fn run<T: Send>(self, run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let run = || {
                sched_setaffinity(None, &self.set()).unwrap();
                run()
            };
            scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// On a machine with one core, both have that one.
    fn set(self) -> CpuSet {
        // The present thread may have some of them only.
        let all = sched_getaffinity(Some(getpid())).unwrap();
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        let of_server = (usable.len() / 2).clamp(1, MAX_OF_SERVER);
        let (server, load) = usable.split_at(of_server);
        let mut set = CpuSet::new();
        match self {
            Self::Load if !load.is_empty() => load.iter().for_each(|core| set.set(*core)),
            _ => server.iter().for_each(|core| set.set(*core)),
        }
        set
    }
}
