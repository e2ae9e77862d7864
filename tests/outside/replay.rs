//! Do failures repeat on another machine?

use std::fs;

use relayer_rest_tests::failures::{self, check_replayed, random_capsules, replay_arguments};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::virtual_machine::{DATA, Machine};

#[tokio::test]
#[ignore = "needs a machine with x86-64, QEMU and a kernel: \
            apt-get install qemu-system-x86 busybox-static cpio linux-image-cloud-amd64"]
async fn a_thousand_failures_have_the_same_outcome_on_another_machine() {
    let folder = Folder::new();
    failures::write(&folder, &random_capsules().await);
    let machine = Machine::run(folder.as_path(), &replay_arguments(DATA)).await;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(machine.kernel, kernel.trim());
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap();
    let features = processor.lines().find(|line| line.starts_with("flags")).unwrap();
    assert_ne!(machine.features, features);
    check_replayed(&machine.ended);
}
