//! Wires the program.
fn main() {}
