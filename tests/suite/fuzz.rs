//! Do the inputs of the fuzzing corpus, with those of earlier findings, pass?

use std::fs;
use std::path::Path;

use relayer_rest_tests::fuzz::TARGETS;

#[test]
fn the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in TARGETS {
        let mut count = 0;
        for file in fs::read_dir(corpus.join(name)).unwrap() {
            target(&fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "{name} has no inputs");
    }
    // Each folder of the corpus belongs to a target.
    assert_eq!(fs::read_dir(corpus).unwrap().count(), TARGETS.len());
}
