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

local call, number, floor, ceil, format = redis.call, tonumber, math.floor, math.ceil, string.format
local buckets = (#ARGV - 3) / 5
local lanes = #KEYS - buckets
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

local active = buckets - number(ARGV[3])
local taking = ARGV[1] == 'take'
local time = call('TIME')
local seconds, micros = number(time[1]), number(time[2])
local answers, states, keeps
if buckets > 1 then
  answers, states, keeps = {}, {}, {}
end
local a = 4

for i = 1, buckets do
  local algorithm, per_second, limit = ARGV[a], number(ARGV[a + 1]), number(ARGV[a + 2])
  local capacity, cost = number(ARGV[a + 3]), number(ARGV[a + 4])
  a = a + 5
  local now = seconds * per_second + floor(micros * per_second / 1000000)
  local key, state = KEYS[lanes + i], kept[lanes + i]
  -- Each algorithm sets its answer and, where there is room, the state after this call and how many ticks that matters.
  local answer, after, ticks
  if algorithm == 't' then
    --@token_bucket
  else
    return redis.error_reply('ERR unknown algorithm')
  end
  if after then
    -- A minute more than it matters, against clocks that differ.
    local keep = format('%d', ceil(ticks * 1000 / per_second) + 60000)
    if buckets == 1 then
      if taking then
        call('PSETEX', key, keep, after)
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
      call('PSETEX', KEYS[lanes + i], keeps[i], states[i])
    end
  end
end
return answers
