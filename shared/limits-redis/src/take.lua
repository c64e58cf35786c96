#!lua
-- Decides one call: all of its buckets, or none. The clock is this server's.
--
-- KEYS  the epochs of the lanes that the call lies in, then its buckets: shadow buckets last
-- ARGV  1  'take' or 'look' (says what taking would find)
--       2  the epoch that the caller decides by
--       3  how many of the buckets are shadows: they stop nothing, and are taken from where they have room
--       then five for each bucket:
--          algorithm        't' token bucket
--          per_second       ticks a second
--          limit            what a tick gives back
--          capacity         the level that is never passed
--          cost             what this call adds
-- Reply nil                    a lane has no epoch: it lost its data, nothing is known
--       a string               the epoch of a lane that is newer than the caller's: it is behind, and nothing was taken
--       an answer              of the only bucket
--       an array of answers    of all others, in their order
-- An answer is the level before this call; or -1 - level, where there was no room; or an array of that and the ticks by which
-- the bucket's own clock is ahead, where it is.
--
-- Beginning with '#!lua', this runs nowhere but on a node that may write: a demoted one refuses even a denial. One script and no
-- transaction, since what is written depends on what is read.

local buckets = (#ARGV - 3) / 5
local lanes = #KEYS - buckets
local kept = redis.call('MGET', unpack(KEYS))

for i = 1, lanes do
  local epoch = kept[i]
  if epoch ~= ARGV[2] then
    if not epoch then
      return false
    end
    if tonumber(epoch) > tonumber(ARGV[2]) then
      return epoch
    end
  end
end
if buckets == 0 then
  return {}
end

-- Writes a bucket's state, to be kept for the ticks in which it matters and a minute more, against clocks that differ.
local function keep(key, state, ticks, per_second)
  local ms = math.ceil(ticks * 1000 / per_second) + 60000
  redis.call('PSETEX', KEYS[key], string.format('%d', ms), state)
end

local active = buckets - tonumber(ARGV[3])
local taking = ARGV[1] == 'take'
local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local answers, states, ticks = {}, {}, {}
local a = 4

for i = 1, buckets do
  local algorithm, per_second, limit = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local capacity, cost = tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  a = a + 5
  local now = seconds * per_second + math.floor(micros * per_second / 1000000)
  local state = kept[lanes + i]
  -- Each algorithm sets its answer and, where there is room, the state after this call and how many ticks that matters.
  local answer, after, matters
  if algorithm == 't' then
    --@token_bucket
  else
    return redis.error_reply('ERR unknown algorithm')
  end
  if after then
    states[i] = after
    ticks[i] = matters
  elseif i <= active then
    taking = false
  end
  answers[i] = answer
end

if taking then
  for i = 1, buckets do
    if states[i] then
      keep(lanes + i, states[i], ticks[i], tonumber(ARGV[5 * i]))
    end
  end
end
if buckets == 1 then
  return answers[1]
end
return answers
