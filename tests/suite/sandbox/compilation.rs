//! Can a module that is hard to compile harm the server?

use std::fs;
use std::time::Duration;

use relayer_rest_host::control::ControlClient;
use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::{Rejection, SwapOutcome, SwapReport, SwapStep};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::{
    children, lower_priority, priority, send_signal, started_child, thread_priorities,
};
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::{any_dialect, candidate};
use relayer_rest_tests::wait::{until, until_async};
use relayer_rest_tests::{component, measure};
use rustix::process::Signal;
use tokio::time::sleep;

/// A number of blocks that takes many seconds to compile on any machine.
const MANY: usize = 16_000;

/// Starts a server with these settings, and with a code cache of its own.
async fn serve(folder: &Folder, settings: &str) -> Serving {
    let config = folder.write("c.toml", settings);
    let args = ["--config", &config, "--code-cache", &folder.path("cache")];
    Program::server().args(args).start().await
}

async fn swap(serving: &Serving, component: Vec<u8>) -> SwapReport {
    serving.control_client().swap("/", any_dialect(component)).await.unwrap()
}

/// Waits until a compiler has set its parent death signal and its OOM score.
async fn confined(compiler: i32) {
    let oom = format!("/proc/{compiler}/oom_score_adj");
    until("the compiler is confined", || fs::read_to_string(&oom).unwrap() == "1000\n").await;
}

#[tokio::test]
async fn check_obeys_the_time_limit_of_swaps() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "[swap]\ntime = '300ms'");
    let module = folder.write("hard.wasm", component::hard_to_compile(MANY));
    let ended = Program::new(["check", "--config", &config, &module]).run().await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("hard.wasm: no result within 300ms; raise swap.time"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn compilations_beyond_the_time_limit_are_stopped() {
    let folder = Folder::new();
    let serving = serve(&folder, "[swap]\ntime = '300ms'").await;
    let report = swap(&serving, component::hard_to_compile(MANY)).await;
    let SwapOutcome::Rejected { reason: Rejection::Timeout, .. } = report.outcome else {
        panic!("{report:?}")
    };
    let client = serving.control_client();
    let is_stopped = async || client.status().await.unwrap().mounts[0].candidate.is_none();
    until_async("the compilation ends", is_stopped).await;
    assert_eq!(children(serving.id()), [0; 0]);
}

/// The bounds of a swap apply at the start, too: a restart must fail with a message
/// instead of hanging or dying because of a module.
#[tokio::test]
async fn a_start_fails_with_a_message_if_a_module_is_hard_to_compile() {
    let folder = Folder::new();
    folder.write("hard.wasm", component::hard_to_compile(MANY));
    let cache = folder.path("cache");
    for (bound, parts) in [
        ("time = '300ms'", ["no result within 300ms", "raise swap.time"]),
        (
            "time = '10min'\nmemory = '64MiB'",
            ["failed with at most 64.0 MiB of memory", "raise swap.memory"],
        ),
    ] {
        for module in [
            "[module]\nfile = 'hard.wasm'",
            "[[extension]]\nname = 'a'\nmodule = 'hard.wasm'\nrequired = true",
        ] {
            let config = folder.write("c.toml", format!("[swap]\n{bound}\n{module}\n"));
            let args = ["--config", &config, "--code-cache", &cache];
            let started = Program::server().args(args).run().await;
            assert_eq!(started.status, Some(2), "{}", started.stderr);
            let checked = Program::new(["config", "check", &config]).run().await;
            assert_eq!(checked.status, Some(1), "{}", checked.stderr);
            for part in parts {
                assert!(started.stderr.contains(part), "{part} is not in: {}", started.stderr);
                assert!(checked.stdout.contains(part), "{part} is not in: {}", checked.stdout);
            }
        }
    }
}

#[tokio::test]
async fn compilations_beyond_the_memory_limit_are_stopped() {
    let folder = Folder::new();
    let serving = serve(&folder, "[swap]\ntime = '10min'\nmemory = '64MiB'").await;
    let report = swap(&serving, component::hard_to_compile(MANY)).await;
    let SwapOutcome::Rejected { reason: Rejection::Invalid, message } = report.outcome else {
        panic!("{report:?}")
    };
    for part in [
        "mount /: module",
        "failed with at most 64.0 MiB",
        "memory allocation of ",
        "raise swap.memory",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    // The message about an invalid component is the compiler's own.
    let truncated = swap(&serving, DEFAULT_MODULE[..DEFAULT_MODULE.len() / 2].to_vec()).await;
    let SwapOutcome::Rejected { reason: Rejection::Invalid, message } = truncated.outcome else {
        panic!("{truncated:?}")
    };
    assert!(message.contains("not a valid component: "), "{message}");
    assert!(message.contains("is out of bounds"), "{message}");
    // The memory suffices for a simpler component.
    let good = component::with_response(201, "a", b"b");
    assert_eq!(swap(&serving, good).await.outcome, SwapOutcome::Swapped);
}

#[tokio::test]
async fn compilations_take_no_memory_of_the_server() {
    let folder = Folder::new();
    let serving = serve(&folder, "[swap]\ntime = '10min'").await;
    // Resets the peak.
    fs::write(format!("/proc/{}/clear_refs", serving.id()), "5").unwrap();
    let before = measure::peak_memory_of(serving.id());
    // It takes some 100 MiB.
    let report = swap(&serving, component::hard_to_compile(MANY / 4)).await;
    let steps: Vec<_> = report.steps.iter().map(|step| step.step).collect();
    assert_eq!(steps, [SwapStep::Read, SwapStep::Compile, SwapStep::Probe], "{report:?}");
    let more = measure::peak_memory_of(serving.id()) - before;
    assert!(more < 50 << 20, "{more} bytes more");
}

#[tokio::test]
async fn the_compiler_dies_with_the_server() {
    let folder = Folder::new();
    let serving = serve(&folder, "").await;
    let control = serving.socket.clone();
    let swapping = tokio::spawn(async move {
        let candidate = candidate(component::hard_to_compile(MANY));
        ControlClient::new(&control).swap("/", candidate).await
    });
    let compiler = started_child(serving.id()).await;
    // From now on it is killed when the server ends.
    confined(compiler).await;
    // The compiler yields the processors to requests.
    assert_eq!(priority(format!("/proc/{compiler}/stat")), lower_priority());
    serving.signal(Signal::KILL);
    serving.ended().await;
    swapping.await.unwrap().unwrap_err();
    // A zombie counts as gone, since another process may have to reap it.
    let is_there = || {
        let status = fs::read_to_string(format!("/proc/{compiler}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    until("the compiler is gone", || !is_there()).await;
}

/// A swap is cancelled when its client disconnects.
#[tokio::test]
async fn a_swap_is_cancelled_when_its_client_disconnects() {
    let folder = Folder::new();
    let serving = serve(&folder, "").await;
    let client = serving.control_client();
    let swapping = tokio::spawn({
        let client = client.clone();
        async move { client.swap("/", candidate(component::hard_to_compile(MANY))).await }
    });
    // The compiler would not end by itself.
    send_signal(started_child(serving.id()).await, Signal::STOP);
    swapping.abort();
    let is_cancelled = async || client.status().await.unwrap().mounts[0].candidate.is_none();
    until_async("the swap is cancelled", is_cancelled).await;
    assert_eq!(children(serving.id()), [0; 0]);
}

#[tokio::test]
async fn preflights_run_at_a_lower_priority() {
    let folder = Folder::new();
    let serving = serve(&folder, "").await;
    swap(&serving, component::with_response(201, "a", b"b")).await;
    assert_eq!(thread_priorities(serving.id(), "candidates"), [lower_priority()]);
}

/// The signal arrives before the server listens.
#[tokio::test]
async fn a_signal_during_a_compilation_ends_the_start() {
    let folder = Folder::new();
    let module = folder.write("hard.wasm", component::hard_to_compile(MANY));
    let args = ["--module", &module, "--code-cache", &folder.path("cache")];
    let serve = Program::server().args(args).spawn();
    started_child(serve.id()).await;
    serve.signal(Signal::TERM);
    let ended = serve.ended().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "", "it does not listen first");
}

/// A user waits for `check`, possibly on a busy machine.
#[tokio::test]
async fn check_compiles_with_its_own_priority() {
    let folder = Folder::new();
    let module = folder.write("hard.wasm", component::hard_to_compile(MANY));
    let check = Program::new(["check", "--dialect", "any", &module]).spawn();
    let own = priority(format!("/proc/{}/stat", check.id()));
    let compiler = started_child(check.id()).await;
    confined(compiler).await;
    for _ in 0..20 {
        assert_eq!(priority(format!("/proc/{compiler}/stat")), own);
        sleep(Duration::from_millis(10)).await;
    }
    check.signal(Signal::KILL);
    check.ended().await;
}
