//! A migration that is added or changed is built in, as a source file would be.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
