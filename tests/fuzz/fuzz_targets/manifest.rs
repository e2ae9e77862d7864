#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relayer_rest_tests::fuzz::files::manifest(data));
