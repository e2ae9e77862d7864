//! Do many swaps, and swaps that are cut short, leave the server as it was?

use std::process::Command;

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::{SwapOutcome, SwapStep};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{any_dialect, candidate, label};
use relayer_rest_tests::{component, measure};
use rustix::process::Signal;

#[tokio::test]
#[ignore = "slow: starts many servers without a code cache"]
async fn a_process_killed_during_a_swap_starts_again() {
    let folder = Folder::new();
    let control = folder.join("c.sock");
    let new = component::noted(DEFAULT_MODULE, "new");
    let module = folder.write("api.wasm", DEFAULT_MODULE);
    // On a busy machine, a step takes longer than the default limits.
    let config = folder.write("c.toml", "[module.limits]\ntime = '1min'\n[swap]\ntime = '30min'\n");
    let without = ["--no-code-cache"].as_slice();
    let with = [].as_slice();
    for (step, cache) in [
        (SwapStep::Compile, without),
        (SwapStep::Compile, with),
        (SwapStep::Probe, with),
        (SwapStep::Compare, with),
    ] {
        let args = ["--config", &config, "--module", &module];
        let program = Program::server().args(args).args(cache).socket(&control);
        let serving = program.clone().start().await;
        let client = serving.control_client();
        let is_there = async || {
            let status = client.status().await.unwrap();
            status.mounts[0].candidate.as_ref().is_some_and(|candidate| candidate.step == step)
        };
        let mut count = 0;
        let swapping = 'seen: loop {
            // For the compile step, a module that compiles for long; for others, one with
            // long runs. Each attempt has another module.
            let note = count.to_string();
            let swap = match step {
                SwapStep::Compile => candidate(component::noted(&new, &note)),
                _ => any_dialect(component::noted(&component::that_takes(20_000_000), &note)),
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
        serving.signal(Signal::KILL);
        serving.ended().await;
        drop(swapping.await.unwrap());
        let serving = program.start().await;
        assert_eq!(serving.label("/state").await, label(DEFAULT_MODULE));
        assert_eq!(serving.connect().await.get("/state").await.status, 200);
        serving.stop().await;
    }
}

/// A replaced module's memory and permits are released.
#[tokio::test]
#[ignore = "slow: a thousand swaps"]
async fn many_swaps_leak_neither_memory_nor_permits() {
    let folder = Folder::new();
    // One permit: if a swap leaks it, the next request is not served.
    let config = folder.write("c.toml", "[module.limits]\nconcurrency = 1\nqueue-wait = '10min'");
    let cache = folder.join("cache");
    let cache = cache.to_str().unwrap();
    let mut serving =
        Program::server().args(["--config", &config, "--code-cache", cache]).start().await;
    // The log of a thousand swaps would fill its pipe.
    serving.close_log();
    let client = serving.control_client();
    let modules = [201, 202].map(|status| component::with_response(status, "a", b"b"));
    let traps = component::of_handler("unreachable");
    let mut memory = 0;
    for swap in 0..1_000 {
        let report = client.swap("/", any_dialect(modules[swap % 2].clone())).await.unwrap();
        assert_eq!(report.outcome, SwapOutcome::Swapped);
        if swap % 10 == 0 {
            let refused = client.swap("/", any_dialect(traps.clone())).await.unwrap();
            assert!(matches!(refused.outcome, SwapOutcome::Rejected { .. }));
            let status = if swap % 2 == 0 { 201 } else { 202 };
            let mut http = serving.connect().await;
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

/// The soak test itself takes too long. Its settings must still be those of the server.
#[test]
fn the_soak_test_starts_and_reloads_its_server() {
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    let output = soak.args(["--minutes", "0"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("wrong responses: 0"), "{stdout}");
}
