//! The cores of servers and loads: half of them each.

use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::runtime::Runtime;
use tokio::task;

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

    /// Starts a thread with these cores.
    pub(crate) fn spawn<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.run(|| thread::spawn(run))
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

/// A runtime for servers and one for their clients, with the cores of each.
#[derive(Debug)]
pub(crate) struct Runtimes {
    servers: Runtime,
    clients: Runtime,
}

impl Runtimes {
    pub(crate) fn new() -> Self {
        let new = |cores: Cores| cores.run(|| Runtime::new().unwrap());
        Self { servers: new(Cores::Server), clients: new(Cores::Load) }
    }

    /// Starts or changes a server, on its cores, which its processes have, too.
    pub(crate) fn serve<T: Send>(&self, serve: impl AsyncFnOnce() -> T + Send) -> T {
        Cores::Server.run(|| self.servers.block_on(serve()))
    }

    /// Spawns a task on the runtime of servers.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        serve: impl Future<Output = T> + Send + 'static,
    ) -> task::JoinHandle<T> {
        self.servers.spawn(serve)
    }

    /// Runs clients, on their cores.
    pub(crate) fn load<T: Send>(&self, load: impl AsyncFnOnce() -> T + Send) -> T {
        Cores::Load.run(|| self.clients.block_on(load()))
    }
}
