# Recipes for `just` (https://just.systems); each is a command that also works alone.

# List the recipes
default:
    @just --list

# Run the tests
test *ARGS:
    cargo test --workspace {{ ARGS }}

# Check the format, the lints and the prose
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    .ci/prose

# Measure the performance; a part can be named, such as `misses`
bench *PARTS:
    cargo bench -p relayer-rest-tests -- {{ PARTS }}

# Write the parts of the docs that come from the code, and build the crates' docs
docs:
    UPDATE_DOCS=1 cargo test --workspace --test suite -- docs::
    cargo doc --workspace --no-deps --locked

# Serve the sample relayer; options of the command can follow
run *ARGS:
    cargo run --release -- {{ ARGS }}

# Build the command for release, into target/package
package:
    cargo install --path host/cli --locked --no-track --force --root target/package

# Run all the checks of CI
ci:
    .ci/run
