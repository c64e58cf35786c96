//! How many instructions a call takes: the functions under callgrind, which counts the same whatever else the machine does. The
//! system's own work is not in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use local::servers::Redis;

use crate::{
    function::{Event, Function, binary},
    rows::authorizer::{event, published, variables},
};

/// Calls that are made before others are counted.
const WARM: u64 = 500;
const CALLS: u64 = 2_000;

/// Prints a line for each handler, and leaves what `callgrind_annotate` reads.
pub fn run() {
    let redis = Redis::start().unwrap_or_else(|error| panic!("{error}"));
    let operator = published(&redis.url(), 1_000);
    let variables = variables(&redis, &operator);
    println!("| handler | instructions a call | by function |\n|---|---:|---|");
    for (name, program, key) in [
        ("a handler that does nothing", "nothing", "roomy-key"),
        (
            "a handler that asks the least script",
            "evalsha",
            "roomy-key",
        ),
        ("authorizer, allowed", "authorizer", "roomy-key"),
        ("authorizer, known to be empty", "authorizer", "empty-key"),
    ] {
        let output = binary(program).with_file_name(format!("callgrind.{program}.{key}"));
        let count = |calls| count(&binary(program), &output, &variables, &event(key), calls);
        let each = (count(WARM + CALLS) - count(WARM)) / CALLS;
        println!(
            "| {name} | {each} | `callgrind_annotate {}` |",
            output.display()
        );
    }
}

/// The instructions of a process from its start until it has answered so many calls.
fn count(
    program: &Path,
    output: &PathBuf,
    variables: &[(&str, String)],
    event: &Event,
    calls: u64,
) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program);
    let mut function = Function::start(&mut valgrind, variables);
    for _ in 0..calls {
        function.invoke(event);
    }
    let mut kill = Command::new("kill");
    let kill = kill.args(["-TERM", &function.pid().to_string()]);
    assert!(kill.stdin(Stdio::null()).status().unwrap().success());
    function.ended();
    let text = fs::read_to_string(output).expect("callgrind tells what it counted");
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    line.unwrap().trim().parse().unwrap()
}
