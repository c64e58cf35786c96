//! What a process has spent.

use std::{fs, time::Duration};

use rustix::param::clock_ticks_per_second;

/// The processor time of a process of this machine since its start, all its threads together: its own and the kernel's for it.
pub fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process lives");
    // The name before the last bracket may hold anything.
    let (_, fields) = stat.rsplit_once(')').expect("a name stands in brackets");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks
        .map(|ticks| ticks.parse::<u64>().expect("ticks are a number"))
        .sum();
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}
