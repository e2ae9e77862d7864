//! Has a capsule the same outcome on another engine, in another process, and natively?

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, UNIX_EPOCH};

use relayer_rest_failing_guest::handle;
use relayer_rest_host::module::{Capsule, DebugOutput, GuestRequest, Limits, Redaction, RunRecord};
use relayer_rest_host::state::{ChainConfig, ChainKind, StatePublisher};
use relayer_rest_sdk::testing;
use relayer_rest_tests::cargo::FAILING_GUEST;
use relayer_rest_tests::failures::{
    self, check_replayed, module, random_capsules, replay_arguments,
};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::patient;
use wasmparser::{KnownCustom, Parser, Payload};

/// Handles the request of a capsule natively, and compares the outcome.
fn check_native(json: &str) {
    let capsule = testing::Capsule::parse(json);
    let handled = catch_unwind(AssertUnwindSafe(|| capsule.replay(handle)));
    match (handled, capsule.response()) {
        (Ok(response), Some(testing::RecordedResponse { status, headers, body })) => {
            let own: Vec<_> = response
                .headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                .collect();
            assert_eq!((response.status, own, response.body), (status, headers, body), "{json}");
        }
        // Its status is invalid.
        (Ok(response), None) => {
            assert!(json.contains(&format!("status {} is not", response.status)));
        }
        (Err(panic), None) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap();
            let trap = capsule.trap().unwrap();
            assert!(trap.contains(message), "{message}: {trap}");
        }
        (Err(_), Some(response)) => panic!("{response:?}"),
    }
}

#[tokio::test]
async fn a_thousand_failures_have_the_same_outcome_elsewhere() {
    let capsules = random_capsules().await;
    let mut outcomes = BTreeMap::<_, u64>::new();
    for json in &capsules {
        let capsule = Capsule::parse(json.as_bytes()).unwrap();
        let recorded = capsule.outcome().to_string();
        let kind = recorded.split([' ', ':']).next().unwrap().to_owned();
        if kind != "time-out" {
            check_native(json);
        }
        *outcomes.entry(kind).or_default() += 1;
    }
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["invalid", "status", "time-out", "trap"]);
    // Another process has only the files.
    let folder = Folder::new();
    failures::write(&folder, &capsules);
    let args = replay_arguments(folder.as_path().to_str().unwrap());
    check_replayed(&Program::new(args).run().await);
}

#[tokio::test]
async fn a_capsule_has_all_chains_if_their_reads_do_not_fit_into_its_record() {
    let publisher = StatePublisher::new();
    let ids: Vec<_> = (0..100).map(|number| format!("chain-{number}")).collect();
    let chains = ids.iter().map(|id| ChainConfig::new(id.as_str(), ChainKind::CosmosSdk));
    publisher.set_chains(chains.collect()).unwrap();
    let reads: Vec<_> = ids.iter().map(|id| format!("&read=chain:{id}")).collect();
    let reads = reads.concat();
    let target = format!("/?then=panic{reads}&read=chain:none").parse().unwrap();
    let request = GuestRequest::new(hyper::Method::GET, target, hyper::HeaderMap::new());
    let module = module(&patient()).await;
    let run = RunRecord::from_run(&module, request, publisher.reader().snapshot()).await.unwrap();
    let capsule = Capsule::new(&run, "1", UNIX_EPOCH, &Redaction::default()).unwrap();
    let json = capsule.to_json().unwrap();
    let capsule = Capsule::parse(&json).unwrap();
    let replay = capsule.replay(&module, &DebugOutput::default()).await.unwrap().unwrap();
    assert!(replay.is_same && replay.missing.is_empty(), "{replay:?}");
    check_native(str::from_utf8(&json).unwrap());
}

/// A slower machine takes more time for the same outcome.
#[tokio::test]
async fn only_the_replay_of_a_time_out_has_the_recorded_limit_of_time() {
    for (then, millis, replayed) in [("endless", 50, 50), ("panic", 5_000, 50_000)] {
        let limits = Limits { time: Duration::from_millis(millis), ..Limits::default() };
        let module = module(&limits).await;
        let target = format!("/?then={then}").parse().unwrap();
        let request = GuestRequest::new(hyper::Method::GET, target, hyper::HeaderMap::new());
        let snapshot = StatePublisher::new().reader().snapshot();
        let run = RunRecord::from_run(&module, request, snapshot).await.unwrap();
        let capsule = Capsule::new(&run, "1", UNIX_EPOCH, &Redaction::default()).unwrap();
        let limits = capsule.engine_options().limits;
        assert_eq!(limits.time, Duration::from_millis(replayed), "{then}");
    }
}

/// Checks that a core dump has a stack, and the memory of the module with data.
fn check_core_dump(core: &[u8]) {
    let (mut frames, mut memories, mut data) = (0, 0, 0);
    let mut sections = Vec::new();
    for payload in Parser::new(0).parse_all(core) {
        match payload.unwrap() {
            Payload::MemorySection(section) => memories += section.count(),
            Payload::DataSection(section) => {
                data +=
                    section.into_iter().map(|segment| segment.unwrap().data.len()).sum::<usize>();
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::CoreDumpStack(stack) = section.as_known() {
                    frames += stack.frames.len();
                }
                sections.push(section.name().to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(sections, ["core", "coremodules", "coreinstances", "corestack"]);
    assert!(frames > 0 && memories > 0 && data > 0, "{frames} {memories} {data}");
}

#[tokio::test]
async fn a_replay_writes_a_core_dump_and_a_profile() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let module = module(&limits).await;
    for then in ["endless", "panic"] {
        let folder = Folder::new();
        let target = format!("/?then={then}").parse().unwrap();
        let request = GuestRequest::new(hyper::Method::GET, target, hyper::HeaderMap::new());
        let snapshot = StatePublisher::new().reader().snapshot();
        let run = RunRecord::from_run(&module, request, snapshot).await.unwrap();
        let capsule = Capsule::new(&run, "1", UNIX_EPOCH, &Redaction::default()).unwrap();
        let file = folder.write("1.capsule.json", capsule.to_json().unwrap());
        let component = folder.write("failing.wasm", FAILING_GUEST);
        let [core, profile] = ["core", "profile.json"].map(|name| folder.path(name));
        let args =
            ["replay", &file, "--module", &component, "--core", &core, "--profile", &profile];
        let ended = Program::new(args).run().await;
        assert_eq!(ended.status, Some(0), "{ended:?}");
        check_core_dump(&fs::read(core).unwrap());
        let profile: serde_json::Value =
            serde_json::from_slice(&fs::read(profile).unwrap()).unwrap();
        let thread = &profile["threads"][0];
        // The other run may be too short for a sample.
        if then == "endless" {
            assert!(thread["samples"]["length"].as_u64().unwrap() > 0, "{thread:#}");
            let names = thread["stringArray"].to_string();
            assert!(names.contains("wasm function"), "{names}");
        }
    }
}
