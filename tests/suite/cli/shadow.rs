//! Does `swap --shadow` decide about a candidate, write its report, and end early?

use std::fs;

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::ShadowStatus;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::{lower_priority, thread_priorities};
use relayer_rest_tests::program::{Program, Serving, Spawned};
use relayer_rest_tests::server::{label, short};
use relayer_rest_tests::wait::{until, until_async};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::check_failure;

async fn shadow_status(serving: &Serving) -> Option<ShadowStatus> {
    let status = serving.control_client().status().await.unwrap();
    status.mounts[0].candidate.clone()?.shadow
}

/// Starts `swap` with a shadow and these arguments, and waits until the shadow has begun.
async fn begin(serving: &Serving, args: &[&str]) -> Spawned {
    let program = Program::new(["swap"]).args(args).socket(&serving.socket).env("RUST_LOG", "warn");
    let swap = program.spawn();
    until_async("the shadow begins", async || shadow_status(serving).await.is_some()).await;
    swap
}

/// Waits until this number of requests is compared.
async fn compared(serving: &Serving, requests: u64) {
    let is_compared = async || {
        shadow_status(serving).await.is_some_and(|shadow| shadow.tally.requests >= requests)
    };
    until_async("the requests are compared", is_compared).await;
}

fn read_json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn a_candidate_is_swapped_in_after_its_shadow_and_the_report_is_written() {
    let folder = Folder::new();
    let new = component::noted(DEFAULT_MODULE, "new");
    let path = folder.write("new.wasm", &new);
    let serving = Program::server().start().await;
    // The shadow is longer each time, until the requests are sent before its end.
    for seconds in [1, 4, 16, 64, 256] {
        let time = format!("{seconds}s");
        let spawned = Program::new(["swap", &path, "--shadow", &time, "--min-requests", "2"]);
        let spawned = spawned.socket(&serving.socket).env("RUST_LOG", "warn");
        let swapping = tokio::spawn(spawned.run());
        let has_begun = async || shadow_status(&serving).await.is_some() || swapping.is_finished();
        until_async("the shadow begins", has_begun).await;
        for chain in ["a", "b"] {
            serving.connect().await.get(&format!("/chain/{chain}{seconds}")).await;
        }
        let ended = swapping.await.unwrap();
        let report = read_json(&folder.path("new.shadow.json"));
        assert_eq!(report["to"].as_str().unwrap()[..12], short(&new));
        if ended.status == Some(1) {
            assert_eq!(report["reason"], "too-few-requests");
            continue;
        }
        assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        assert_eq!(
            (&report["outcome"], &report["shadow"]["requests"]),
            (&"swapped".into(), &2.into())
        );
        for part in [
            "\nshadow ",
            "\n2 requests compared on 1 generations of the state, ",
            "\n0 responses differ, 0 of them as expected\n",
            "\nactive    2 runs, 0 failed; mean ",
            "\ncandidate 2 runs, 0 failed; mean ",
            &format!("\nswapped: {} -> {}\nreport: ", short(DEFAULT_MODULE), short(&new)),
        ] {
            assert!(ended.stdout.contains(part), "{part} is not in: {}", ended.stdout);
        }
        assert_eq!(serving.label("/chains").await, label(&new));
        return;
    }
    panic!("no shadow was long enough");
}

#[tokio::test]
async fn an_unexpected_difference_ends_the_shadow_with_abort() {
    let folder = Folder::new();
    let response = |body: &[u8]| component::of_response(200, &[], body);
    let old = folder.write("old.wasm", response(br#"{"a":1,"b":1}"#));
    let new = folder.write("new.wasm", response(br#"{"a":2,"b":2}"#));
    let changes = "[[change]]\nroute = '*'\nkind = 'changed'\npointer = '/a'\n";
    let expected = folder.write("changes.toml", changes);
    let report = folder.path("report.json");
    let serving = Program::server().args(["--module", &old, "--dialect", "any"]).start().await;
    let args = [&new, "--shadow", "7days", "--expect", &expected, "--report", &report, "--abort"];
    let swap = begin(&serving, &args).await;
    // The thread of the preflight, and that of the shadow.
    let is_low =
        || thread_priorities(serving.id(), "candidates") == [(); 2].map(|()| lower_priority());
    until("both threads have a lower priority", is_low).await;
    serving.connect().await.get("/x").await;
    let ended = swap.ended().await;
    assert_eq!(ended.status, Some(1), "{}", ended.stdout);
    for part in [
        "\n1 responses differ, 0 of them as expected\n",
        "\n  GET /x changed /b (once)\n    GET /x: body /b: 1 -> 2\n",
        "\n  GET /x changed /a (once, expected)\n    GET /x: body /a: 1 -> 2\n",
        "\nrejected: mount /: module ",
        "such as that to GET /x: body /b: 1 -> 2; correct the module, or declare the changes with --expect\n",
        &format!("\nreport: {report}\n"),
    ] {
        assert!(ended.stdout.contains(part), "{part} is not in: {}", ended.stdout);
    }
    let mut report = read_json(&report);
    assert_eq!(report["reason"], "differences");
    let shadow = &mut report["shadow"];
    // Times differ.
    assert!(shadow["seconds"].take().as_f64().unwrap() > 0.0);
    assert!(shadow["slowdown"].take().as_f64().is_none_or(|slowdown| slowdown > 0.0));
    for module in ["active", "candidate"] {
        for time in ["mean_millis", "p50_millis", "p99_millis"] {
            assert!(shadow[module][time].take().as_f64().unwrap() > 0.0, "{module} {time}");
        }
        assert!(shadow[module]["peak_memory"].take().as_u64().unwrap() > 0, "{module}");
    }
    let difference = |pointer: &str, is_expected: bool| {
        json!({
            "route": "GET /x", "kind": "changed", "pointer": pointer, "header": null,
            "is_expected": is_expected, "count": 1, "request": "GET /x",
            "first": { "part": format!("body {pointer}"), "from": "1", "to": "2" },
        })
    };
    let runs = json!({
        "runs": 1, "failures": 0, "mean_millis": null, "p50_millis": null, "p99_millis": null,
        "peak_memory": null,
    });
    let expected = json!({
        "seconds": null, "requests": 1, "generations": 1, "dropped": 0, "frequent": 0,
        "unexpected": 1, "expected": 0,
        "differences": [difference("/b", false), difference("/a", true)],
        "unlisted": 0, "unseen": [], "slowdown": null, "active": runs, "candidate": runs,
    });
    assert_eq!(*shadow, expected);
    assert!(!folder.join("new.shadow.json").exists());
}

#[tokio::test]
async fn an_interrupt_or_a_request_ends_the_shadow_and_rejects_the_candidate() {
    let folder = Folder::new();
    let path = folder.write("new.wasm", component::noted(DEFAULT_MODULE, "new"));
    let serving = Program::server().start().await;
    let args = [&*path, "--shadow", "1h"];
    for is_interrupt in [true, false] {
        let swap = begin(&serving, &args).await;
        serving.connect().await.get(&format!("/chain/{is_interrupt}")).await;
        compared(&serving, 1).await;
        let status = serving.control(&["status"]).await.stdout;
        let part = "(step shadow)\n  shadow: 1 requests compared, 0 differ, 0 of them as expected, 0 dropped; ends in 5";
        assert!(status.contains(part), "{status}");
        if is_interrupt {
            swap.signal(Signal::INT);
        } else {
            let ended = serving.control_client().cancel_shadow("/").await.unwrap();
            assert_eq!(ended.mount, "/");
        }
        let ended = swap.ended().await;
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        let part = "the shadow was ended early; swap again\n";
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
        let report = read_json(&folder.path("new.shadow.json"));
        assert_eq!(
            (&report["reason"], &report["shadow"]["requests"]),
            (&"cancelled".into(), &1.into())
        );
    }
    assert_eq!(serving.label("/chains").await, label(DEFAULT_MODULE));
    let none = serving.control_client().cancel_shadow("/").await.unwrap_err().to_string();
    assert_eq!(none, "mount /: no shadow is in progress; start one with `swap --shadow`");
}

#[tokio::test]
async fn a_reload_keeps_the_shadow_unless_it_replaces_the_mount_and_a_takeover_waits() {
    let folder = Folder::new();
    let old = component::of_response(200, &[], b"{}");
    let module = folder.write("old.wasm", &old);
    let new = folder.write("new.wasm", component::noted(&old, "new"));
    let settings = folder.write("c.toml", "[module]\nfile = 'old.wasm'\ndialect = 'any'\n");
    let program = Program::server().args(["--config", &settings]);
    let serving = program.clone().start().await;
    let swap = begin(&serving, &[&new, "--shadow", "1h"]).await;

    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    folder.replace("old.wasm", component::noted(&old, "changed"));
    let refused = serving.control(&["reload"]).await;
    let message = "rejected, nothing has changed: mount /: another deployment is in progress; try again later\n";
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(1), message));
    let refused = program.args(["--takeover"]).run().await;
    let message = "--takeover: mount /: a swap or reload is in progress; wait for its end";
    check_failure(&refused, 2, message);

    serving.connect().await.get("/x").await;
    compared(&serving, 1).await;
    swap.signal(Signal::INT);
    assert_eq!(swap.ended().await.status, Some(1));
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    drop(module);
}

/// Without the command, nothing waits for the report.
#[tokio::test]
async fn a_shadow_ends_with_its_command_and_with_the_server() {
    let folder = Folder::new();
    let path = folder.write("new.wasm", component::noted(DEFAULT_MODULE, "new"));
    let serving = Program::server().start().await;
    let args = [&*path, "--shadow", "1h"];
    let swap = begin(&serving, &args).await;
    swap.signal(Signal::KILL);
    swap.ended().await;
    let has_ended =
        async || serving.control_client().status().await.unwrap().mounts[0].candidate.is_none();
    until_async("the shadow has ended", has_ended).await;
    let swap = begin(&serving, &args).await;
    serving.stop().await;
    let ended = swap.ended().await;
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_eq!(fs::read(folder.join("new.shadow.json")).unwrap(), b"");
}

#[tokio::test]
async fn a_changed_file_is_swapped_in_after_the_shadow() {
    let folder = Folder::new();
    let module = folder.write("api.wasm", DEFAULT_MODULE);
    let path = folder.write("new.wasm", component::noted(DEFAULT_MODULE, "new"));
    let serving = Program::server().args(["--module", &module, "--watch"]).start().await;
    let swap = begin(&serving, &[&path, "--shadow", "1h"]).await;
    let changed = component::noted(DEFAULT_MODULE, "changed");
    folder.replace("api.wasm", &changed);
    serving.connect().await.get("/chain/a").await;
    compared(&serving, 1).await;
    swap.signal(Signal::INT);
    assert_eq!(swap.ended().await.status, Some(1));
    let is_swapped = async || serving.label("/chains").await == label(&changed);
    until_async("the file is swapped in", is_swapped).await;
    let deployments = serving.control_client().status().await.unwrap().mounts[0].deployments;
    assert_eq!((deployments.swaps, deployments.rejections), (1, 1));
}

#[tokio::test]
async fn invalid_options_of_a_shadow_are_rejected_before_the_swap() {
    let folder = Folder::new();
    let path = folder.write("new.wasm", DEFAULT_MODULE);
    let changes = folder.write("changes.toml", "[[change]]\nroute = '/chains'\nkind = 'add'\n");
    let serving = Program::server().start().await;
    let swap = async |args: &[&str]| serving.control(&[&["swap", &path], args].concat()).await;
    let ended = swap(&["--shadow", "1s", "--expect", &changes]).await;
    let message = format!(
        "expected changes {changes}: not valid at line 3, column 8: change[0].kind: unknown variant `add`"
    );
    check_failure(&ended, 2, &message);
    let ended = swap(&["--shadow", "1s", "--expect", &folder.path("none")]).await;
    check_failure(
        &ended,
        2,
        &format!("expected changes {}: cannot be read: ", folder.path("none")),
    );
    let ended = swap(&["--shadow", "1s", "--report", &folder.path("no/folder")]).await;
    check_failure(&ended, 2, &format!("report {}: cannot be written: ", folder.path("no/folder")));
    for args in [&["--shadow", "8days"][..], &["--shadow", "soon"], &["--abort"]] {
        let ended = swap(args).await;
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
    }
    assert!(!folder.join("new.shadow.json").exists());
}
