//! The command, as a process.

mod admin;
mod changes;
mod check;
mod control;
mod control_socket;
mod dev;
mod doctor;
mod explain;
mod extensions;
mod loading;
mod log;
mod otlp;
mod packaging;
mod progress;
mod registries;
mod reload;
mod replay;
mod resources;
mod restart;
mod serve;
mod service_manager;
mod settings;
mod shadow;
mod shutdown;
mod takeover;
mod top;
mod watch;

use relayer_rest_tests::client::Response;
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program, Serving};
use tokio::task::JoinHandle;

/// Checks the status, and the message, which is the last line on stderr.
#[track_caller]
pub(crate) fn check_failure(ended: &Ended, status: i32, message: &str) {
    assert_eq!(ended.status, Some(status), "{ended:?}");
    assert_eq!(ended.stdout, "", "nothing is served");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with(&format!("relayer-rest: {message}")), "{last}");
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

/// Returns a component that responds with 204. For the path [`TRAP`], it first logs `begun`, and
/// runs for this number of rounds.
fn busy(rounds: u64) -> Vec<u8> {
    let guard = component::only_for(TRAP);
    component::of_handler_that_logs(
        "begun",
        &format!(
            "(local $round i64)
             {guard}
             (call $log (i32.const 2) (i32.const 64) (i32.const 5))
             (loop
                (local.set $round (i64.add (local.get $round) (i64.const 1)))
                (br_if 0 (i64.lt_u (local.get $round) (i64.const {rounds}))))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0"
        ),
    )
}

/// Starts a server of a module that never ends, with these arguments, and sends it a
/// request.
async fn spinning(args: &[&str]) -> (Serving, JoinHandle<Response>) {
    let folder = Folder::new();
    let module = folder.write("busy.wasm", busy(u64::MAX));
    let settings = folder.write("relayer-rest.toml", "[module.limits]\ntime = '1h'");
    let program = Program::server().args(["--module", &module, "--dialect", "any"]);
    let program = program.args(["--config", &settings]).args(args);
    let mut process = program.start().await;
    let mut client = process.connect().await;
    let pending = tokio::spawn(async move { client.get(TRAP).await });
    process.logged("begun").await;
    (process, pending)
}
