//! Is a module's use of resources bounded, and does a faulty module fail only its own
//! request?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Engine, Limits, Module, RunPermit, TrapKind, Trapped};
use relayer_rest_host::state::{StatePublisher, sample};
use relayer_rest_tests::client::Response;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, extension, patient, request};
use relayer_rest_tests::wait::until;
use tokio::task::JoinHandle;

const INTERNAL: &str =
    "the request could not be handled; the log has the cause under this x-request-id";
const BAD: &str =
    "the response of the module is not valid HTTP; the log has the cause under this x-request-id";

async fn response_of(component: &[u8], limits: &Limits) -> Response {
    TestServer::builder().component(component).limits(limits).start().await.get("/chains").await
}

#[tokio::test]
async fn a_trap_is_an_internal_error() {
    let response = response_of(&component::of_handler("unreachable"), &patient()).await;
    response.check_error(500, "Internal", INTERNAL);
    assert_eq!(response.header("x-request-id").len(), 24);
}

/// No tick interrupts the guest while it fills its memory, and each of its paths may be
/// new.
#[tokio::test]
async fn all_runs_of_a_module_that_blocks_its_thread_start_in_the_pool() {
    const RUNS: u64 = 200;
    let component = component::that_fills_memory_on_slow();
    let limits = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let module = Module::from_bytes(&engine(&limits), "test", &component).unwrap();
    let snapshot = StatePublisher::new().reader().snapshot();
    let run = async |module: &Module, path: String| {
        let permit = RunPermit::acquire(module).await.unwrap();
        let output = permit.execute(request("GET", &path, &[]), snapshot.clone()).await.unwrap();
        assert_eq!(output.response.status(), 204);
    };
    let elsewhere = || module.engine().runs_started_elsewhere();
    run(&module, "/fast".to_owned()).await;
    assert_eq!(elsewhere(), 0);
    // If the ticker gets no processor meanwhile, the module does not count as the cause.
    for attempt in 0..10 {
        run(&module, format!("/slow/{attempt}")).await;
        let before = elsewhere();
        for renewed in [module.clone().afresh(), module.clone().named("other")] {
            for path in 0..RUNS / 2 {
                run(&renewed, format!("/{attempt}/{}/{path}", renewed.name())).await;
            }
        }
        if elsewhere() - before == RUNS {
            return;
        }
    }
    panic!("runs of new paths start on the thread of their request");
}

/// The host clears all of an instance's memory after each request
/// (`docs/decisions/008-reset.md`).
#[tokio::test]
async fn small_responses_of_the_api_take_two_pages_of_memory() {
    let publisher = StatePublisher::new();
    sample(&publisher);
    let module = Module::embedded(&engine(&patient())).unwrap();
    for path in ["/version", "/chains", "/state"] {
        let guest_request = request("GET", path, &[]);
        let permit = RunPermit::acquire(&module).await.unwrap();
        let output = permit.execute(guest_request, publisher.reader().snapshot()).await.unwrap();
        assert_eq!(output.response.status(), 200, "{path}");
        // The total includes a table, which is small.
        assert_eq!(output.memory / (64 << 10), 2, "{path}: {} bytes", output.memory);
    }
}

#[tokio::test]
async fn an_invalid_pointer_is_an_internal_error() {
    for pointer in ["i32.const -4", "i32.const 262143", "i32.const 1"] {
        let response = response_of(&component::of_handler(pointer), &patient()).await;
        response.check_error(500, "Internal", INTERNAL);
    }
}

#[tokio::test]
async fn endless_recursion_is_an_internal_error() {
    let component = component::of_module(
        r#"(module
            (memory (export "memory") 1)
            (func $f (param i64 i64 i64) (result i32)
                (i32.add (call $f (local.get 0) (local.get 1) (local.get 2)) (i32.const 1)))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (call $f (i64.const 1) (i64.const 2) (i64.const 3))))"#,
    );
    response_of(&component, &patient()).await.check_error(500, "Internal", INTERNAL);
}

/// A module can call as deep as its configured stack allows, no more and no less.
#[tokio::test]
async fn calls_are_as_deep_as_the_configured_stack_allows() {
    // 10,000 calls of some tens of bytes each, then 204.
    let component = component::of_module(
        r#"(module
            (memory (export "memory") 1)
            (func $f (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                    (else (i32.const 0))))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (drop (call $f (i32.const 10000)))
                (i32.store16 (i32.const 0) (i32.const 204))
                i32.const 0))"#,
    );
    for (stack, status) in [(ByteSize::kib(64), 500), (ByteSize::mib(4), 204)] {
        let limits = Limits { stack, ..patient() };
        assert_eq!(response_of(&component, &limits).await.status, status, "{stack}");
    }
}

/// The number of a table's elements is bounded, at the start and when it grows.
#[tokio::test]
async fn table_elements_beyond_the_limit_are_refused() {
    let growing = |start: u32| {
        component::of_module(&format!(
            r#"(module
            (table $t {start} funcref)
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (i32.eq (table.grow $t (ref.null func) (i32.const 90)) (i32.const -1))
                if unreachable end
                (i32.store16 (i32.const 0) (i32.const 204))
                i32.const 0))"#
        ))
    };
    let limits = |table| Limits { table, ..patient() };
    assert_eq!(response_of(&growing(10), &limits(100)).await.status, 204);
    assert_eq!(response_of(&growing(10), &limits(99)).await.status, 500);
    let error = Module::from_bytes(&engine(&limits(99)), "test", &growing(100)).unwrap_err();
    let error = error.to_string();
    assert!(error.ends_with("; raise limits.table in the settings"), "{error}");
}

#[tokio::test]
async fn tables_share_the_limit_of_memory() {
    // Traps if the table can grow by 400,000 bytes, and responds with 204 otherwise.
    let component = component::of_module(
        r#"(module
            (table $t 1 funcref)
            (memory (export "memory") 12)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (i32.ne (table.grow $t (ref.null func) (i32.const 50000)) (i32.const -1))
                if unreachable end
                (i32.store16 (i32.const 0) (i32.const 204))
                i32.const 0))"#,
    );
    let limits = |memory| Limits { memory, table: 100_000, ..patient() };
    assert_eq!(response_of(&component, &limits(ByteSize::mib(1))).await.status, 204);
    assert_eq!(response_of(&component, &limits(ByteSize::mib(2))).await.status, 500);
}

#[tokio::test]
async fn handles_to_resources_are_bounded() {
    let holding = |handles: u32| {
        component::parts::with_parts(&format!(
            r#"(type $r (resource (rep i32)))
            (core func $new (canon resource.new $r))
            (core module $holds
                (import "r" "new" (func $new (param i32) (result i32)))
                (func $start (local $left i32)
                    (local.set $left (i32.const {handles}))
                    (loop $more
                        (drop (call $new (i32.const 7)))
                        (br_if $more
                            (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
                (start $start))
            (core instance (instantiate $holds
                (with "r" (instance (export "new" (func $new))))))"#
        ))
    };
    assert_eq!(response_of(&holding(2_000), &patient()).await.status, 204);
    assert_eq!(response_of(&holding(2_001), &patient()).await.status, 500);
}

#[tokio::test]
async fn memory_beyond_the_limit_is_refused() {
    // Traps if the memory can grow by 4 MiB, and responds with 204 otherwise.
    let component = component::of_handler(
        "(i32.ne (memory.grow (i32.const 64)) (i32.const -1))
         if unreachable end
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0",
    );
    let limits = |memory| Limits { memory, ..patient() };
    let refused = response_of(&component, &limits(ByteSize::mib(4))).await;
    assert_eq!(refused.status, 204);
    let given = response_of(&component, &limits(ByteSize::mib(8))).await;
    assert_eq!(given.status, 500);
}

#[tokio::test]
async fn requests_beyond_the_time_limit_time_out() {
    let limits = Limits { time: Duration::from_millis(20), ..patient() };
    let response = response_of(&component::of_handler("(loop br 0) unreachable"), &limits).await;
    response.check_error(504, "Timeout", "the request took too long to handle");
}

/// The handler has no name, and so have the functions that convert its types.
#[tokio::test]
async fn the_error_about_an_endless_loop_names_its_function() {
    let component = component::of_module(
        r#"(module
            (memory (export "memory") 4)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536)
            (func $count (loop br 0))
            (func $render (call $count))
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (call $render)
                unreachable))"#,
    );
    let limits = Limits { time: Duration::from_millis(20), ..patient() };
    let module = Module::from_bytes(&engine(&limits), "spins", &component).unwrap();
    for permit in [
        RunPermit::acquire(&module).await.unwrap(),
        RunPermit::acquire_background(&module).await.unwrap(),
    ] {
        let snapshot = StatePublisher::new().reader().snapshot();
        let error = permit.execute(request("GET", "/", &[]), snapshot).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the module took longer than 20ms; interrupted in count, called by render, and \
                1 function without a name"
        );
    }
}

/// Compilers of LLVM put the stack of a module at the start of its memory.
#[tokio::test]
async fn the_error_about_an_access_below_the_stack_names_an_overflow() {
    let trap = async |address: &str| {
        let component = component::of_module(&format!(
            r#"(module
                (memory (export "memory") 4)
                (global $stack (mut i32) (i32.const 1024))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536)
                (func $frame
                    (global.set $stack (i32.sub (global.get $stack) (i32.const 64)))
                    (i32.store {address} (i32.const 1))
                    (call $frame))
                (func (export "relayer:rest/handler@0.1.0#handle")
                    (param i32 i32 i32 i32) (result i32)
                    (call $frame)
                    unreachable))"#
        ));
        let module = Module::from_bytes(&engine(&patient()), "recurses", &component).unwrap();
        let permit = RunPermit::acquire(&module).await.unwrap();
        let snapshot = StatePublisher::new().reader().snapshot();
        match permit.execute(request("GET", "/", &[]), snapshot).await.unwrap_err() {
            CallError::Trap(trapped) => trapped,
            error => panic!("{error}"),
        }
    };
    let Trapped { kind, cause } = trap("(global.get $stack)").await;
    assert_eq!(kind, TrapKind::OutOfBounds, "{cause}");
    let start = "wasm trap: out of bounds memory access; probably a stack overflow, as its stack \
                 pointer is below 0; in frame, called by frame";
    assert!(cause.starts_with(start), "{cause}");
    let Trapped { kind, cause } = trap("(i32.const 9999999)").await;
    assert_eq!(kind, TrapKind::OutOfBounds, "{cause}");
    assert!(!cause.contains("overflow"), "{cause}");
}

#[tokio::test]
async fn the_reason_for_a_response_that_was_not_read_has_the_limits() {
    let limits = Limits { body: ByteSize::kib(64), ..patient() };
    let component = component::of_response(200, &[], &vec![b'a'; 1 << 20]);
    let module = Module::from_bytes(&engine(&limits), "large", &component).unwrap();
    let permit = RunPermit::acquire(&module).await.unwrap();
    let snapshot = StatePublisher::new().reader().snapshot();
    let error = permit.execute(request("GET", "/", &[]), snapshot).await.unwrap_err();
    let headers = limits.header_size;
    assert_eq!(
        error.to_string(),
        format!(
            "the module's response is invalid: its body is larger than 64.0 KiB (limits.body), \
             or its headers are larger than {headers} (limits.header-size) or more than 128 (limits.headers)"
        )
    );
}

/// The start function runs within the time limit, and yields, too.
#[tokio::test]
async fn an_endless_start_function_times_out_and_delays_no_other_module() {
    let component = component::of_module(
        r#"(module
            (memory (export "memory") 1)
            (func $start (loop br 0))
            (start $start)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32) i32.const 0))"#,
    );
    let other = extension("/other", &engine(&patient()), &component::with_response(204, "a", b"b"));
    let server = TestServer::builder().component(&component).extension(other).workers(1);
    let server = server.start().await;
    let mut client = server.connect().await;
    let spinning = tokio::spawn(async move { client.get("/").await });
    until("the start function runs", || server.api().status().module().unwrap().runs == 1).await;
    // The only thread that serves connections is free while the module spins.
    assert_eq!(server.get("/other/").await.status, 204);
    spinning.abort();
    let limits = Limits { time: Duration::from_millis(20), ..patient() };
    let response = response_of(&component, &limits).await;
    response.check_error(504, "Timeout", "the request took too long to handle");
}

/// Returns limits of one instance, which may run for long, with neither queue nor cache.
fn one_at_a_time() -> Limits {
    Limits {
        time: Duration::from_mins(10),
        concurrency: 1,
        queue: 0,
        response_cache: ByteSize::b(0),
        ..patient()
    }
}

#[tokio::test]
async fn requests_beyond_the_concurrency_limit_get_503() {
    let component = component::of_handler("(loop br 0) unreachable");
    let server = TestServer::builder().component(&component).limits(&one_at_a_time()).start().await;
    let mut one = server.connect().await;
    let mut other = server.connect().await;
    // The first request spins; the other one is turned away.
    let response = tokio::select! {
        response = one.get("/") => response,
        response = other.get("/") => response,
    };
    response.check_error(503, "Overloaded", "too many requests are being handled; try again");
    assert_eq!(response.header("retry-after"), "1");
}

/// Starts a client that makes the module spin. It repeats its request while another
/// request has the permit.
async fn spin(server: &TestServer) -> JoinHandle<()> {
    let mut client = server.connect().await;
    tokio::spawn(async move { while client.get("/spin").await.status == 503 {} })
}

#[tokio::test]
async fn a_disconnected_client_releases_its_permit() {
    let server = TestServer::builder()
        .component(&component::that_spins_on_spin())
        .limits(&one_at_a_time())
        .start()
        .await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        let spinning = spin(&server).await;
        client.get_until("/", |response| response.status == 503).await;
        spinning.abort();
        client.get_until("/", |response| response.status == 204).await;
    }
}

#[tokio::test]
async fn spinning_modules_yield_to_others() {
    // More instances than threads.
    let limits = Limits { concurrency: 8, ..one_at_a_time() };
    let server = TestServer::builder()
        .component(&component::that_spins_on_spin())
        .limits(&limits)
        .extension(extension(
            "/ext/other",
            &engine(&patient()),
            &component::with_response(204, "a", b"b"),
        ))
        .workers(1)
        .start()
        .await;
    let mut spinning = Vec::new();
    for _ in 0..8 {
        spinning.push(spin(&server).await);
    }
    let mut client = server.connect().await;
    client.get_until("/", |response| response.status == 503).await;
    // Its only thread that serves connections is free.
    for number in 0..20 {
        assert_eq!(client.get(&format!("/ext/other/{number}")).await.status, 204);
    }
    for client in spinning {
        assert!(!client.is_finished());
        client.abort();
    }
}

#[tokio::test]
async fn servers_of_one_engine_share_its_permits() {
    let module =
        Module::from_bytes(&engine(&one_at_a_time()), "test", &component::that_spins_on_spin())
            .unwrap();
    let one = TestServer::builder().module(module.clone()).start().await;
    let other = TestServer::builder().module(module).start().await;
    let spinning = spin(&one).await;
    let response = other.connect().await.get_until("/", |response| response.status == 503).await;
    response.check_error(503, "Overloaded", "too many requests are being handled; try again");
    spinning.abort();
}

#[test]
fn limits_out_of_range_are_rejected() {
    for limits in [
        Limits { memory: ByteSize::kib(1), ..patient() },
        Limits { time: Duration::MAX, ..patient() },
        Limits { concurrency: 0, ..patient() },
        Limits { queue: u32::MAX, ..patient() },
        Limits { queue_wait: Duration::MAX, ..patient() },
        Limits { response_cache: ByteSize::gib(65), ..patient() },
    ] {
        let message = Engine::new(&limits).err().unwrap().to_string();
        assert!(message.contains("; expected "), "{message}");
    }
}

#[test]
fn a_module_with_too_much_initial_memory_is_rejected() {
    let limits = Limits { memory: ByteSize::mib(1), ..patient() };
    let component = component::of_response(204, &[], &vec![b'x'; 1 << 20]);
    let refused = Module::from_bytes(&engine(&limits), "large", &component);
    let message = refused.unwrap_err().to_string();
    let start = "module large: needs more memory than the limit of 1.0 MiB: ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("; raise limits.memory in the settings"), "{message}");
}

#[tokio::test]
async fn an_invalid_response_is_a_bad_module_response() {
    for (status, header, value) in [
        (99, "a", &b"b"[..]),
        (100, "a", b"b"),
        (1000, "a", b"b"),
        (200, "a b", b"c"),
        (200, "a", b"b\r\nset-cookie: c"),
        (200, "content-length", b"5"),
        (200, "transfer-encoding", b"chunked"),
        (200, "connection", b"close"),
    ] {
        let component = component::with_response(status, header, value);
        response_of(&component, &patient()).await.check_error(502, "BadModuleResponse", BAD);
    }
}

#[tokio::test]
async fn instances_start_from_their_initial_state() {
    // Responds with a status in memory, after adding 1 to it.
    let component = component::of_module(
        r#"(module
            (memory (export "memory") 2)
            (data (i32.const 4096) "\c8\00")
            (global $count (mut i32) (i32.const 0))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (global.set $count (i32.add (global.get $count) (i32.const 1)))
                (i32.store16 (i32.const 4096)
                    (i32.add (i32.load16_u (i32.const 4096)) (global.get $count)))
                i32.const 4096))"#,
    );
    let limits = Limits { concurrency: 1, response_cache: ByteSize::b(0), ..patient() };
    let server = TestServer::builder().component(&component).limits(&limits).start().await;
    let mut client = server.connect().await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 201);
    }
}
