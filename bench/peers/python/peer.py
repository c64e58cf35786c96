"""limits with redis-py and hiredis, one round of calls at a time. Started as `python peer.py REDIS_URL`; it is asked and answers as
bench/peers/rust/src/main.rs says."""

import json
import sys
from time import perf_counter_ns

from limits import RateLimitItemPerHour
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

# Calls rotate among these.
USERS = [f"user-{user}" for user in range(1_000)]

# What a user may do in a window that is longer than a run: more than any run asks for.
PLENTY = RateLimitItemPerHour(1_000_000)

redis = RedisStorage(sys.argv[1])
VARIANTS = [
    ("limits fixed-window, Redis, allowed", FixedWindowRateLimiter(redis)),
    ("limits sliding-window-counter, Redis, allowed", SlidingWindowCounterRateLimiter(redis)),
    ("limits moving-window, Redis, allowed", MovingWindowRateLimiter(redis)),
    ("limits fixed-window, in memory, allowed", FixedWindowRateLimiter(MemoryStorage())),
]


def run(variant, in_flight, calls):
    name, limiter = VARIANTS[variant]
    if in_flight != 1:
        raise ValueError(f"{name} not with {in_flight} in flight")
    times = []
    begun = perf_counter_ns()
    for call in range(calls):
        start = perf_counter_ns()
        allowed = limiter.hit(PLENTY, name, USERS[call % len(USERS)])
        times.append(perf_counter_ns() - start)
        if not allowed:
            raise RuntimeError(f"{name}: answered otherwise")
    seconds = (perf_counter_ns() - begun) / 1e9

    times.sort()
    p50, p99 = (times[len(times) * percent // 100] / 1_000 for percent in (50, 99))
    return {"p50_us": p50, "p99_us": p99, "per_second": calls / seconds}


def answer(line):
    print(json.dumps(line), flush=True)


answer({"variants": [{"name": name, "in_flight": [1]} for name, _ in VARIANTS]})
for line in sys.stdin:
    answer(run(**json.loads(line)))
