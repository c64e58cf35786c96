#!lua
-- Decides one call: all of its buckets, or none. The clock is this server's.
--
-- KEYS  the epochs of the lanes that the call lies in, then its buckets: shadow buckets last
-- ARGV  1  'take' or 'look' (says what taking would find)
--       2  the epoch that the caller decides by
--       3  how many of the buckets are shadows: they stop nothing, and are taken from where they have room
--       then five for each bucket:
--          algorithm        't' token or leaky bucket, 'f' fixed window, 's' sliding window, 'l' sliding log
--          per_second       ticks a second
--          limit            requests a window; of a bucket also what a tick gives back
--          size             of a bucket the level that is never passed; else the window in ticks
--          cost             what this call adds: to the level of a bucket, else in requests
-- Reply nil                    a lane has no epoch: it lost its data, nothing is known
--       a string               the epoch of a lane that is newer than the caller's: it is behind, and nothing was taken
--       an answer              of the only bucket
--       an array of answers    of all others, in their order
-- An answer is what was counted before this call; or -1 - that, where there was no room; or an array that begins with it, as
-- the algorithm's file says. All that it says of time is in ticks from now.
--
-- Beginning with '#!lua', this runs nowhere but on a node that may write: a demoted one refuses even a denial. One script and no
-- transaction, since what is written depends on what is read.

local call, number, floor, ceil, format = redis.call, tonumber, math.floor, math.ceil, string.format
local pack, unpacked = struct.pack, struct.unpack
local buckets = (#ARGV - 3) / 5
local lanes = #KEYS - buckets
-- Of a list this is nil.
local kept = call('MGET', unpack(KEYS))

for i = 1, lanes do
  local epoch = kept[i]
  if epoch ~= ARGV[2] then
    if not epoch then
      return false
    end
    if number(epoch) > number(ARGV[2]) then
      return epoch
    end
  end
end
if buckets == 0 then
  return {}
end

-- How long what matters for so many ticks is kept, in milliseconds: a minute more, against clocks that differ.
local function keep_for(ticks, per_second)
  return format('%d', ceil(ticks * 1000 / per_second) + 60000)
end

-- Writes a state: a string, or what is pushed onto the entries of a log that still count.
local function write(key, keep, state)
  if type(state) == 'string' then
    return call('PSETEX', key, keep, state)
  end
  if state.count > 0 then
    call('LTRIM', key, 0, state.count - 1)
  else
    call('DEL', key)
  end
  call('LPUSH', key, unpack(state))
  call('PEXPIRE', key, keep)
end

local active = buckets - number(ARGV[3])
local may_write = ARGV[1] == 'take'
local taking = may_write
local time = call('TIME')
local seconds, micros = number(time[1]), number(time[2])
local answers, states, keeps
if buckets > 1 then
  answers, states, keeps = {}, {}, {}
end
local a = 4

for i = 1, buckets do
  local algorithm, per_second, limit = ARGV[a], number(ARGV[a + 1]), number(ARGV[a + 2])
  local size, cost = number(ARGV[a + 3]), number(ARGV[a + 4])
  a = a + 5
  local now = seconds * per_second + floor(micros * per_second / 1000000)
  local key, state = KEYS[lanes + i], kept[lanes + i]
  -- Each algorithm sets its answer and, where there is room, the state after this call and for how many ticks that matters.
  -- A clock that was more than a second ahead was wrong: its state goes on from now, for good, or a denied caller would wait
  -- until that time comes. One that was a little ahead is waited for.
  local answer, after, ticks
  if algorithm == 't' then
    --@token_bucket
  elseif algorithm == 'f' then
    --@fixed_window
  elseif algorithm == 's' then
    --@sliding_window
  elseif algorithm == 'l' then
    --@sliding_log
  else
    return redis.error_reply('ERR unknown algorithm')
  end
  if after then
    local keep = keep_for(ticks, per_second)
    if buckets == 1 then
      if taking then
        write(key, keep, after)
      end
      return answer
    end
    states[i], keeps[i] = after, keep
  elseif buckets == 1 then
    return answer
  elseif i <= active then
    taking = false
  end
  answers[i] = answer
end

if taking then
  for i = 1, buckets do
    if states[i] then
      write(KEYS[lanes + i], keeps[i], states[i])
    end
  end
end
return answers
