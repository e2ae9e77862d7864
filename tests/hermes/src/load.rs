//! Clients that send requests as fast as they can.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::http::{Response, get};

const CLIENTS: usize = 4;
const PATHS: [&str; 4] = ["/state", "/chains", "/version", "/chain/ibc-0"];

/// Sends requests until a function returns, and returns the responses.
///
/// # Panics
///
/// Panics if a request fails.
#[must_use]
pub fn during(api: SocketAddr, act: impl FnOnce()) -> Vec<Response> {
    let has_ended = AtomicBool::new(false);
    let send = || {
        let mut responses = Vec::new();
        for path in PATHS.iter().cycle() {
            // The last requests begin after the end of the function.
            let is_last = has_ended.load(Ordering::SeqCst);
            let response = get(api, path);
            assert_eq!(response.status, 200, "{path}: {response:?}");
            responses.push(response);
            if is_last {
                break;
            }
        }
        responses
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(send)).collect();
        // Ends the clients also if the function panics.
        let end = End(&has_ended);
        act();
        drop(end);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
