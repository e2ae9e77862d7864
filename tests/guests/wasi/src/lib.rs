//! A module that tries out WASI: each path tries one function and reports the result. The
//! tests build it for `wasm32-wasip2`.

use std::collections::hash_map::RandomState;
use std::fmt::Debug;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, process};

use relayer_rest_sdk::{Host, Request, Response};

relayer_rest_sdk::module!(handle);

/// Tries the function that the first segment of the path names.
///
/// # Panics
/// Panics if that is `panic`.
#[must_use]
pub fn handle<H: Host>(_: &H, request: &Request) -> Response {
    match request.path.split('/').nth(1).unwrap_or_default() {
        "time" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            Response::text(now.unwrap_or_default().as_nanos().to_string())
        }
        "wait" => {
            let start = Instant::now();
            sleep(Duration::from_hours(1));
            Response::text(format!("{:?}", start.elapsed()))
        }
        "random" => {
            let states = [RandomState::new(), RandomState::new()];
            Response::text(format!("{:x?}", states.map(|state| state.hash_one(1))))
        }
        "environment" => Response::text(format!("{} {}", env::vars().count(), env::args().count())),
        "stdin" => {
            let mut read = Vec::new();
            let length = io::stdin().read_to_end(&mut read);
            Response::text(format!("{length:?}"))
        }
        "files" => tried(&[
            failure(fs::read_dir("/")),
            failure(File::open("/etc/hosts")),
            failure(File::create("made")),
            failure(fs::create_dir("/tmp/made")),
        ]),
        "sockets" => tried(&[
            failure(TcpStream::connect("127.0.0.1:80")),
            failure(TcpListener::bind("127.0.0.1:0")),
            failure(UdpSocket::bind("127.0.0.1:0")),
            failure("localhost:80".to_socket_addrs()),
        ]),
        "print" => {
            println!("one\ntwo \u{1b}[2K");
            eprint!("three, and no end");
            Response::text("printed")
        }
        "flood" => loop {
            println!("{}", "a".repeat(1_000));
        },
        "hoard" => hoard(),
        "exit" => process::exit(0),
        "panic" => panic!("lost\n{}", request.path),
        _ => Response::text("nothing"),
    }
}

fn tried(failures: &[String]) -> Response {
    Response::text(failures.join(", "))
}

fn failure<T: Debug>(tried: io::Result<T>) -> String {
    match tried {
        Ok(done) => format!("done: {done:?}"),
        Err(_) => "refused".to_owned(),
    }
}

/// Creates pollables without end.
#[cfg(target_os = "wasi")]
fn hoard() -> ! {
    loop {
        std::mem::forget(wasip2::clocks::monotonic_clock::subscribe_duration(1));
    }
}

#[cfg(not(target_os = "wasi"))]
fn hoard() -> ! {
    process::exit(1)
}
