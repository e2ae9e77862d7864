//! Is data that an earlier request left in a slot detected before a client's instance
//! runs there?

use std::sync::Arc;

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Limits, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{engine, patient, request};
use relayer_rest_tests::wait::until;
use tokio::sync::Mutex;

use crate::memory;

/// The secret that a request leaves in its memory, at an address of its initial memory
/// and at one of its grown memory.
const SECRET: u64 = 0x5ec2_e7da_7a0f_0001;
const AT: usize = 8192;
const AT_GROWN: usize = 0x18_0000;

/// The number of elements that a request puts into its table.
const ELEMENTS: usize = 1024;

/// Returns a component that looks for the secret in its memory and its table: the status
/// is 200, and more if it finds anything. For a longer path it leaves the secret in all
/// of them, and never ends.
fn keeper() -> Vec<u8> {
    component::of_module(&format!(
        r#"(module
            (memory (export "memory") 4 32)
            (table $table {ELEMENTS} funcref)
            (elem declare func $f)
            (func $f)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (drop (memory.grow (i32.const 28)))
                (if (i32.gt_u (local.get 3) (i32.const 5)) (then
                    (i64.store (i32.const {AT}) (i64.const {SECRET}))
                    (i64.store (i32.const {AT_GROWN}) (i64.const {SECRET}))
                    (table.fill $table (i32.const 0) (ref.func $f) (i32.const {ELEMENTS}))
                    (loop br 0)))
                (i32.store16 (i32.const 0) (i32.add (i32.const 200) (i32.or
                    (i32.ne (i32.load (i32.const {AT})) (i32.const 0))
                    (i32.or
                        (i32.shl (i32.ne (i32.load (i32.const {AT_GROWN})) (i32.const 0)) (i32.const 1))
                        (i32.shl (i32.eqz (ref.is_null (table.get $table (i32.const 5)))) (i32.const 2))))))
                i32.const 0))"#
    ))
}

async fn run(module: &Module, path: &str) -> Result<u16, CallError> {
    let snapshot = StatePublisher::new().reader().snapshot();
    let output =
        RunPermit::acquire(module).await?.execute(request("GET", path, &[]), snapshot).await?;
    Ok(output.response.status().as_u16())
}

/// Runs a request that leaves the secret, and searches the process's memory meanwhile.
async fn while_it_runs<T: Send + 'static>(
    module: &Module,
    find: impl Fn() -> Option<T> + Send + Sync + 'static,
) -> T {
    let find = Arc::new(find);
    let running = tokio::spawn({
        let module = module.clone();
        async move { run(&module, "/write").await }
    });
    while !running.is_finished() {
        let find = Arc::clone(&find);
        if let Some(found) = tokio::task::spawn_blocking(move || find()).await.unwrap() {
            running.abort();
            return found;
        }
    }
    panic!("a request that runs has its data in this process's memory");
}

/// Writes a number to a slot after its reset.
async fn leave(address: usize, number: u64) {
    // The instance is dropped soon after its request has ended.
    until("the slot is reset", || memory::read(address) == 0).await;
    memory::write(address, &number.to_le_bytes());
}

/// Runs one test at a time: they look for their data in the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

fn limits() -> Limits {
    Limits {
        concurrency: 1,
        response_cache: ByteSize::b(0),
        memory: ByteSize::mib(8),
        verify_reset: 1,
        ..patient()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftover_data_reaches_no_client_and_retires_the_slot() {
    let _alone = ALONE.lock().await;
    let module = Module::from_bytes(&engine(&limits()), "keeps", &keeper()).unwrap();
    assert_eq!(run(&module, "/").await.unwrap(), 200);
    assert_eq!((module.resets().passed, module.resets().failed), (1, 0));

    // As if the reset had missed a page, of the initial memory and of the grown memory.
    for (failed, place) in [(1, 0), (2, AT_GROWN - AT)] {
        let find = || memory::find(&SECRET.to_le_bytes(), AT_GROWN - AT);
        let start = while_it_runs(&module, find).await;
        leave(start + place, SECRET).await;
        assert_eq!(run(&module, "/").await.unwrap(), 200);
        assert_eq!(module.resets().failed, failed);
        let passed = module.resets().passed;
        assert_eq!(run(&module, "/").await.unwrap(), 200);
        assert_eq!((module.resets().passed, module.resets().failed), (passed + 1, failed));
    }

    // As if it had missed an element of a table, all of whose elements are equal.
    let find = || memory::find_repeated(ELEMENTS);
    let (table, element) = while_it_runs(&module, find).await;
    leave(table + 5 * size_of::<u64>(), element).await;
    assert_eq!(run(&module, "/").await.unwrap(), 200);
    assert_eq!(module.resets().failed, 3);

    // When no trusted slot is left, nothing runs.
    let start = while_it_runs(&module, || memory::find(&SECRET.to_le_bytes(), AT_GROWN - AT)).await;
    leave(start, SECRET).await;
    for _ in 0..2 {
        let refused = run(&module, "/").await;
        assert!(matches!(&refused, Err(CallError::Host(_))), "{refused:?}");
        assert_eq!(module.resets().failed, 4);
    }
}

/// The first check can only compare with other slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftover_data_is_found_by_the_first_check() {
    let _alone = ALONE.lock().await;
    let limits = Limits { verify_reset: 2, ..limits() };
    let (module, start) = loop {
        let module = Module::from_bytes(&engine(&limits), "keeps", &keeper()).unwrap();
        let find = || memory::find(&SECRET.to_le_bytes(), AT_GROWN - AT);
        let start = while_it_runs(&module, find).await;
        if module.runs() == 1 {
            break (module, start);
        }
    };
    leave(start, SECRET).await;
    assert_eq!(run(&module, "/").await.unwrap(), 200);
    assert_eq!((module.resets().passed, module.resets().failed), (1, 1));
}

/// The next module has not yet grown as far as the previous one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftover_data_is_found_by_the_next_module() {
    let _alone = ALONE.lock().await;
    let engine = engine(&limits());
    let module = Module::from_bytes(&engine, "keeps", &keeper()).unwrap();
    let find = || memory::find(&SECRET.to_le_bytes(), AT_GROWN - AT);
    let start = while_it_runs(&module, find).await;
    leave(start + AT_GROWN - AT, SECRET).await;
    // Slots that no module has used yet are taken first.
    let mut next = Vec::new();
    while module.resets().failed == 0 {
        assert!(next.len() < 20, "the slot is not used any more");
        next.push(Module::from_bytes(&engine, "next", &keeper()).unwrap());
        assert_eq!(run(next.last().unwrap(), "/").await.unwrap(), 200);
    }
    assert_eq!(module.resets().failed, 1);
}

#[tokio::test]
async fn one_in_n_runs_is_verified() {
    let limits = Limits { verify_reset: 10, ..limits() };
    let module = Module::from_bytes(&engine(&limits), "keeps", &keeper()).unwrap();
    for _ in 0..29 {
        assert_eq!(run(&module, "/").await.unwrap(), 200);
    }
    assert_eq!((module.resets().passed, module.resets().failed), (2, 0));
    let limits = Limits { verify_reset: 0, ..limits };
    let module = Module::from_bytes(&engine(&limits), "keeps", &keeper()).unwrap();
    for _ in 0..29 {
        assert_eq!(run(&module, "/").await.unwrap(), 200);
    }
    assert_eq!((module.resets().passed, module.resets().failed), (0, 0));
}
