# What there is to do here. Each target works on a fresh Debian with Rust; elsewhere `make setup` says what it misses.

.PHONY: help setup test lint

help:
	@grep -E '^[a-z]+:.*#' $(MAKEFILE_LIST) | sed 's/:.*#/\t/'

setup: # install what the tests start and use: Redis, Postgres, the tools in .tools
	@scripts/install-servers
	@scripts/install-tools

test: setup # every test, on private stores
	cargo test --workspace --locked

lint: setup # formatting, clippy, documentation, dependencies, template
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked
	scripts/check-dependencies
	.tools/venv/bin/cfn-lint --regions us-east-1 -- template.yaml
