# Recipes are the steps of ./test, one to one; CI runs them all by .ci/run.

# Every step.
default: test

# Every step.
test:
    ./test

fmt:
    ./test fmt

clippy:
    ./test clippy

deny:
    ./test deny

unit:
    ./test unit

process:
    ./test process

stories:
    ./test stories

# Measures what there are budgets for, on the release binaries: just bench get list. Run it with nothing else going on.
bench *flags:
    deploy/tools/build-release
    TRIPTYCH_BIN_DIR=target/release cargo run --locked --release -p triptych-tests --bin bench -- {{flags}}

# Build and run on this machine.
up *flags:
    ./up {{flags}}
