//! Clients that send requests while something happens.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::{Client, get};
use crate::wait::until;

const CLIENTS: usize = 4;
/// The pause after a response: the server does other things, too, some at a lower priority.
const PAUSE: Duration = Duration::from_millis(5);
const PATHS: [&str; 4] = ["/state", "/chains", "/version", "/chain/ibc-0"];

/// The responses to the requests of all clients.
#[derive(Debug, Default)]
pub struct Load {
    /// The number of responses.
    pub responses: usize,
    /// The modules that made them.
    pub modules: BTreeSet<String>,
}

/// Waits until the API is complete, and sends requests until a function returns.
///
/// # Panics
///
/// Panics if a request fails.
pub fn during(api: SocketAddr, act: impl FnOnce()) -> Load {
    for path in PATHS {
        until(path, || get(api, path).status == 200);
    }
    let has_ended = AtomicBool::new(false);
    let load = Mutex::new(Load::default());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| send(api, &has_ended, &load));
        }
        // Ends the clients also if the function panics.
        let _end = End(&has_ended);
        act();
    });
    load.into_inner().unwrap()
}

fn send(api: SocketAddr, has_ended: &AtomicBool, load: &Mutex<Load>) {
    let mut client = Client::connect(api).unwrap();
    for path in PATHS.iter().cycle() {
        // The last request begins after the end of the function.
        let is_last = has_ended.load(Ordering::SeqCst);
        let response = client.get(path).unwrap();
        assert_eq!(response.status, 200, "{path}: {response:?}");
        if response.header("connection") == Some("close") {
            client = Client::connect(api).unwrap();
        }
        let mut load = load.lock().unwrap();
        load.responses += 1;
        let module = response.header("x-relayer-module").unwrap();
        if !load.modules.contains(module) {
            load.modules.insert(module.to_owned());
        }
        drop(load);
        if is_last {
            break;
        }
        thread::sleep(PAUSE);
    }
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
