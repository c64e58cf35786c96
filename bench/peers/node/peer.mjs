// rate-limiter-flexible with ioredis, one round of calls at a time. Started as `node peer.mjs REDIS_URL`; it is asked and answers as
// bench/peers/rust/src/main.rs says.

import { createInterface } from 'node:readline';
import Redis from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';

// Calls rotate among these.
const users = Array.from({ length: 1_000 }, (_, user) => `user-${user}`);

// What a user may do in a window, where all is to be allowed: more than any run asks for.
const PLENTY = 1_000_000;

// Longer than a run, in seconds: no counter starts anew within one.
const WINDOW = 3_600;

const redis = new Redis(process.argv[2], { maxRetriesPerRequest: 0, retryStrategy: null });

function inRedis(name, allowed, options) {
  return {
    name: `rate-limiter-flexible Redis, ${name}`,
    allowed,
    inFlight: [1, 50],
    atOnce: 1,
    limiter: new RateLimiterRedis({ storeClient: redis, keyPrefix: name, duration: WINDOW, ...options }),
  };
}

const variants = [
  inRedis('allowed', true, { points: PLENTY }),
  inRedis('denied', false, { points: 1 }),
  // Calls that leave the process no more are timed a hundred at once: one takes about as long as the clock takes to read.
  { ...inRedis('denied, blocked in memory', false, { points: 1, inMemoryBlockOnConsumed: 1 }), inFlight: [1], atOnce: 100 },
  {
    name: 'rate-limiter-flexible Memory, allowed',
    allowed: true,
    inFlight: [1],
    atOnce: 100,
    limiter: new RateLimiterMemory({ points: PLENTY, duration: WINDOW }),
  },
];

async function allows(limiter, user) {
  try {
    await limiter.consume(user);
    return true;
  } catch (refusal) {
    if (refusal instanceof RateLimiterRes) return false;
    throw refusal;
  }
}

async function run({ variant: index, in_flight: inFlight, calls }) {
  const { name, allowed, inFlight: possible, atOnce, limiter } = variants[index];
  if (!possible.includes(inFlight)) throw new Error(`${name} not with ${inFlight} in flight`);
  const all = Math.ceil(calls / atOnce) * atOnce;
  const times = [];
  let next = 0;
  const task = async () => {
    while (next < all) {
      const first = next;
      next += atOnce;
      const start = process.hrtime.bigint();
      for (let call = first; call < first + atOnce; call++) {
        if ((await allows(limiter, users[call % users.length])) !== allowed) throw new Error(`${name}: answered otherwise`);
      }
      times.push(Number(process.hrtime.bigint() - start) / 1_000 / atOnce);
    }
  };
  const start = process.hrtime.bigint();
  await Promise.all(Array.from({ length: inFlight }, task));
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;

  times.sort((one, other) => one - other);
  const percentile = (percent) => times[Math.floor((times.length * percent) / 100)];
  return { p50_us: percentile(50), p99_us: percentile(99), per_second: all / seconds };
}

const answer = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Whoever is to be denied has used up what he may.
for (const { allowed, limiter } of variants) {
  if (!allowed) for (const user of [...users, ...users]) await allows(limiter, user);
}
answer({ variants: variants.map(({ name, inFlight }) => ({ name, in_flight: inFlight })) });
for await (const line of createInterface({ input: process.stdin })) answer(await run(JSON.parse(line)));
redis.disconnect();
