# What there is to do here. Each target works on a fresh Debian with Rust; elsewhere `make setup` says what it misses.

.PHONY: help setup run watch test chaos bench bench-peers profile load simulate lint scan deploy build

help:
	@grep -E '^[a-z-]+:.*#' $(MAKEFILE_LIST) | sed 's/:.*#/\t/'

setup: # install what the tests start and use: Redis, Postgres, PgBouncer, the tools in .tools
	@scripts/install-servers
	@scripts/install-tools

run: # all of it on this machine, in memory; ARGS='--redis URL --database URL' takes real stores, PORT and ADMIN_PORT other ports
	cargo run --locked --bin local -- $(ARGS)

watch: setup # the real functions under cargo lambda watch, on a Redis and a Postgres of their own
	cargo run --locked --bin local -- watch $(ARGS)

test: setup # every test, on private stores
	cargo test --workspace --locked

chaos: setup # two minutes of faults under traffic in each topology, and the account; ARGS='SECONDS primary|sentinel|cluster' for less or more
	cargo run --locked -p tests --example chaos -- $(ARGS)

bench: setup # everything measured beside the least that can be had, in ten minutes, into target/bench; ARGS=keep puts it into docs/performance.md
	cargo build --release --locked -p authorizer
	cargo build --release --locked -p check
	cargo build --release --locked -p floor
	cargo build --profile bench --locked -p bench -p local
	target/release/bench $(ARGS)

bench-peers: # limiters of others to measure beside, in .tools/peers: limitador, governor, rate-limiter-flexible, limits; says which cannot be had
	@scripts/install-peers

profile: setup # instructions a call of the authorizer and of bare handlers, under valgrind, which must be there
	CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release --locked --target-dir target/profile -p authorizer
	CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release --locked --target-dir target/profile -p floor
	cargo build --profile bench --locked -p bench
	CARGO_TARGET_DIR=target/profile target/release/bench profile

load: setup # ten thousand decisions a second for a minute through the real authorizer; ARGS='--rate N --containers N --seconds N' for others
	cargo build --release --locked -p authorizer
	cargo run --profile bench --locked -p bench -- load $(ARGS)

simulate: # a million requests a second, from docs/performance.json, into docs/capacity.md and its plot
	cargo run --release --locked -p simulation -- --write

lint: setup # formatting, clippy, documentation, dependencies, template
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked
	scripts/check-dependencies
	.tools/venv/bin/cfn-lint --regions us-east-1 -- template.yaml docs/*.yaml

scan: # the template by checkov
	@scripts/install-sam
	scripts/scan-template

deploy: # to AWS, by the credentials of the AWS CLI; asks for parameters the first time; ARGS='--guided' asks again
	@scripts/install-tools
	@scripts/install-sam
	scripts/deploy $(ARGS)

build: # every function as it is deployed, for arm64 and x86_64, and a table of their sizes
	@scripts/build
