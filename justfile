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

# Build and run on this machine.
up *flags:
    ./up {{flags}}
