# The daily commands: https://just.systems

# List the recipes
default:
    @just --list

# Show what Volume Warden does, on a control plane that this starts on this machine
demo *arguments:
    cargo demo {{ arguments }}

# Run the unit tests, without a control plane
unit *arguments:
    cargo test --locked --lib {{ arguments }}

# Run the scenarios whose name contains NAME, or all
scenario NAME='':
    cargo test --locked --test scenarios {{ NAME }}

# Run all tests
test *arguments:
    cargo test --locked {{ arguments }}

# Format, and lint as .ci/run does
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Run all checks that must pass before a merge
ci:
    .ci/run

# Run the long tests and the long fuzzing, as every week
soak:
    VOLUME_WARDEN_SOAK=1 cargo test --locked --no-fail-fast
    cargo test --locked --no-fail-fast --test image --test monitoring --test operations --test scenarios -- --ignored
    cargo bench --locked --bench templates
    VOLUME_WARDEN_SOAK=1 fuzz/run
    cargo run --release --locked -p volume-warden-sim --bin mutants
    cargo run --release --locked -p volume-warden-sim -- --histories 1000000
    release/reproducible amd64

# Run histories in a simulated cluster, or replay one: just sim --seed 4711
sim *arguments:
    cargo run --release --locked -p volume-warden-sim -- {{ arguments }}

# Render manifests/install.yaml
render:
    kubectl kustomize manifests > manifests/install.yaml

# Check licences, sources and known vulnerabilities of all dependencies
dependencies:
    release/check advisories

# Try the release scripts and check the workflows
release:
    release/lint-workflows
    release/dry-run
