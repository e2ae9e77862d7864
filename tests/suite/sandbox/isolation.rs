//! Is data of a request left for the next one, of any module, after a success or a trap?

use bytesize::ByteSize;
use relayer_rest_host::module::{CallError, Limits, Module, RunPermit};
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::component::secrets;
use relayer_rest_tests::server::{engine, patient, request};

/// One instance at a time, so that all use the same slot.
fn one_slot() -> Limits {
    Limits { concurrency: 1, response_cache: ByteSize::b(0), memory: ByteSize::mib(8), ..patient() }
}

/// Returns the status of a module's response.
async fn run(module: &Module, path: &str) -> Result<u16, CallError> {
    let snapshot = StatePublisher::new().reader().snapshot();
    let output =
        RunPermit::acquire(module).await?.execute(request("GET", path, &[]), snapshot).await?;
    Ok(output.response.status().as_u16())
}

#[tokio::test]
async fn data_of_a_request_is_gone_in_the_next_one() {
    let engine = engine(&one_slot());
    let keeps = Module::from_bytes(&engine, "keeps", &secrets::keeper()).unwrap();
    // Data that a request writes is found in the same request.
    assert_eq!(run(&keeps, secrets::WRITE_AND_READ).await.unwrap(), 200 + 0b1111);
    for _ in 0..100 {
        assert_eq!(run(&keeps, secrets::READ).await.unwrap(), 200);
        assert_eq!(run(&keeps, secrets::WRITE).await.unwrap(), 200);
        assert_eq!(run(&keeps, secrets::READ).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn data_written_before_a_trap_is_gone_in_the_next_request() {
    let engine = engine(&one_slot());
    let keeps = Module::from_bytes(&engine, "keeps", &secrets::keeper()).unwrap();
    for _ in 0..100 {
        let trapped = run(&keeps, secrets::WRITE_AND_TRAP).await;
        assert!(matches!(trapped, Err(CallError::Trap(_))), "{trapped:?}");
        assert_eq!(run(&keeps, secrets::READ).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn data_of_one_module_is_not_visible_to_another() {
    let engine = engine(&one_slot());
    let keeps = Module::from_bytes(&engine, "keeps", &secrets::keeper()).unwrap();
    let looks = Module::from_bytes(&engine, "looks", &secrets::looker()).unwrap();
    for end in [secrets::WRITE, secrets::WRITE_AND_TRAP] {
        for _ in 0..20 {
            run(&keeps, end).await.ok();
            assert_eq!(run(&looks, secrets::READ).await.unwrap(), 200);
        }
    }
}
