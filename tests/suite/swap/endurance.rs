//! Do many swaps, and swaps that are cut short, leave the server as it was?

use std::fs;
use std::path::Path;

use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::ControlClient;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_host::registry::{Candidate, Outcome, SwapStep};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::command::{self, Serving};
use relayer_rest_tests::server::candidate;
use relayer_rest_tests::{component, measure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

async fn serve(args: &[&str]) -> Serving {
    let args: Vec<_> = ["--listen", "127.0.0.1:0"].iter().chain(args).collect();
    command::serve(program(), &args).await
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn short(component: &[u8]) -> String {
    Digest::of(component).short()
}

async fn label(serving: &Serving, path: &str) -> String {
    Client::http1(serving.address()).await.get(path).await.header("x-relayer-module").to_owned()
}

fn kill(serving: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(serving.id()).unwrap(), signal).unwrap();
}

fn client(serving: &Serving) -> ControlClient {
    ControlClient::new(&serving.control)
}

fn any(component: Vec<u8>) -> Candidate {
    Candidate { dialect: Some(Dialect::Any), ..candidate(component) }
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_swaps_starts_again_and_serves() {
    let folder = folder();
    let control = folder.path().join("c.sock");
    let new = component::noted(DEFAULT_MODULE, "new");
    let module = file(&folder, "api.wasm", DEFAULT_MODULE);
    let (without, with) = (["--no-code-cache"].as_slice(), [].as_slice());
    for (step, cache) in [
        (SwapStep::Compile, without),
        (SwapStep::Compile, with),
        (SwapStep::Probe, with),
        (SwapStep::Compare, with),
    ] {
        let args = ["--listen", "127.0.0.1:0", "--module", &module];
        let args = [&args[..], cache].concat();
        let serving = command::serve_at(program(), &args, control.clone()).await;
        let client = client(&serving);
        let is_there = async || {
            let status = client.status().await.unwrap();
            status.mounts[0].candidate.as_ref().is_some_and(|candidate| candidate.step == step)
        };
        let mut count = 0;
        let swapping = 'seen: loop {
            // For the compile step, a module that compiles for long; for others, one with
            // long runs.
            let swap = match step {
                SwapStep::Compile => candidate(component::noted(&new, &count.to_string())),
                _ => any(component::that_takes(60_000_000)),
            };
            let swapping = tokio::spawn({
                let client = client.clone();
                async move { client.swap("/", swap).await }
            });
            while !swapping.is_finished() {
                if is_there().await {
                    break 'seen swapping;
                }
            }
            count += 1;
        };
        kill(&serving, Signal::KILL);
        serving.ended().await;
        drop(swapping.await.unwrap());
        let serving = command::serve_at(program(), &args, control.clone()).await;
        assert_eq!(label(&serving, "/state").await, format!("api@{}", short(DEFAULT_MODULE)));
        assert_eq!(Client::http1(serving.address()).await.get("/state").await.status, 200);
        kill(&serving, Signal::TERM);
        assert_eq!(serving.ended().await.status, Some(0));
    }
}

/// A replaced module's memory and permits are released.
#[tokio::test]
async fn a_thousand_swaps_leave_things_as_they_were() {
    let folder = folder();
    // One permit: if a swap leaks it, the next request is not served.
    let config = file(&folder, "c.toml", "[module.limits]\nconcurrency = 1\nqueue_wait = '1min'");
    let cache = folder.path().join("cache");
    let cache = cache.to_str().unwrap();
    let mut serving = serve(&["--config", &config, "--code-cache", cache]).await;
    // The log of a thousand swaps would fill its pipe.
    serving.close_log();
    let client = client(&serving);
    let modules = [201, 202].map(|status| component::of_answer(status, "a", b"b"));
    let traps = component::of_handler("unreachable");
    let mut memory = 0;
    for swap in 0..1_000 {
        let report = client.swap("/", any(modules[swap % 2].clone())).await.unwrap();
        assert_eq!(report.outcome, Outcome::Swapped);
        if swap % 10 == 0 {
            let refused = client.swap("/", any(traps.clone())).await.unwrap();
            assert!(matches!(refused.outcome, Outcome::Rejected { .. }));
            let status = if swap % 2 == 0 { 201 } else { 202 };
            let mut http = Client::http1(serving.address()).await;
            assert_eq!(http.get(&format!("/{swap}")).await.status, status);
        }
        // The first ones fill the allocator's arenas.
        if swap == 99 {
            memory = measure::resident_memory_of(serving.id());
        }
    }
    let after = measure::resident_memory_of(serving.id());
    assert!(after * 100 <= memory * 105, "{memory} bytes after 100 swaps, {after} after 1,000");
}
