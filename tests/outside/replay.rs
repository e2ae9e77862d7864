//! Do failures repeat on another machine?

use relayer_rest_tests::failures::{self, check_replayed, random_capsules, replay_arguments};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::virtual_machine::{DATA, Machine};

#[tokio::test]
#[ignore = "needs x86-64, strip, QEMU and a kernel for it (see .ci/run): \
            apt-get install binutils qemu-system-x86 busybox-static cpio"]
async fn a_thousand_failures_have_the_same_outcome_on_another_machine() {
    let folder = Folder::new();
    failures::write(&folder, &random_capsules().await);
    let machine = Machine::run(folder.as_path(), &replay_arguments(DATA)).await;
    // The module is compiled to other instructions than on machines that have it.
    let has_avx = machine.features.split_whitespace().any(|feature| feature == "avx");
    assert!(!has_avx, "{}", machine.features);
    check_replayed(&machine.ended);
}
