//! Measures everything and prints it.

fn main() {
    bench::run();
}
