//! Where processes run. On a machine whose processors sleep when they have nothing to do, a message from one to another costs tens of
//! microseconds for the waking alone, more than all that is measured here. So work is measured with everything on one processor, where
//! there is none, and apart from it what is left of it where the waking is.

use std::sync::Once;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A processor of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu(usize);

/// Where Redis is, and all else that is measured by its work.
pub const HERE: Cpu = Cpu(1);

/// Where those are who ask Redis from another processor.
pub const AWAY: Cpu = Cpu(0);

/// Does something on a processor: this thread, and the threads and processes that it starts meanwhile, which stay there. Where that
/// cannot be had, as with one processor alone, it is said once and done anywhere.
pub fn on<T>(cpu: Cpu, act: impl FnOnce() -> T) -> T {
    static SAID: Once = Once::new();
    let before = sched_getaffinity(None).expect("a thread may know where it may run");
    let mut only = CpuSet::new();
    only.set(cpu.0);
    if let Err(error) = sched_setaffinity(None, &only) {
        SAID.call_once(|| eprintln!("nothing stays on a processor of its own: {error}"));
        return act();
    }
    let done = act();
    sched_setaffinity(None, &before).expect("it was there before");
    done
}
