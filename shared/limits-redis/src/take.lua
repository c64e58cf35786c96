#!lua
-- Decides one call: all of its buckets, or none. The clock is this server's.
--
-- KEYS  the epochs of the lanes that the call lies in, none where they are read apart; then its buckets
-- ARGV  1  'take', 'look' (says what taking would find) or 'hold' (takes what may have to be given back: give.lua)
--       2  the epoch that the caller decides by
--       then one for each bucket, of 34 bytes, since to read numbers from texts would cost more than to decide by them:
--          algorithm        a letter: 't' token or leaky bucket, 'f' fixed window, 's' sliding window, 'l' sliding log
--          shadow           a byte: 1 where it stops nothing, and is taken from where it has room, else 0
--          per_second       as all that follows a double, the lowest byte first: ticks a second
--          limit            requests a window; of a bucket also what a tick gives back
--          size             of a bucket the level that is never passed; else the window in ticks
--          cost             what this call adds: to the level of a bucket, else in requests
-- Reply nil                    a lane has no epoch, or something else in its place: it lost its data, nothing is known
--       a string               the epoch of a lane that is newer than the caller's: it is behind, and nothing was taken
--       an answer              of the only bucket
--       an array of answers    of all others, in their order
--       two arrays             of a hold: the answers, and where it was taken the mark of each take, nil of a shadow without room
-- An answer is what was counted before this call; or -1 - that, where there was no room; or an array that begins with it, as
-- the algorithm's file says. All that it says of time is in ticks from now. A mark is the tick that was written; of a window its
-- beginning.
--
-- Beginning with '#!lua', this runs nowhere but on a node that may write: a demoted one refuses even a denial. One script and no
-- transaction, since what is written depends on what is read.

local call, number, floor, ceil, format = redis.call, tonumber, math.floor, math.ceil, string.format
local pack, unpacked = struct.pack, struct.unpack
local buckets = #ARGV - 2
local lanes = #KEYS - buckets
-- Of a list this is nil. Only so many can be unpacked at once.
local kept
if #KEYS <= 4000 then
  kept = call('MGET', unpack(KEYS))
else
  kept = {}
  for from = 1, #KEYS, 4000 do
    local part = call('MGET', unpack(KEYS, from, math.min(from + 3999, #KEYS)))
    for i = 1, #part do
      kept[from + i - 1] = part[i]
    end
  end
end

for i = 1, lanes do
  local epoch = kept[i]
  if epoch ~= ARGV[2] then
    local reached = epoch and number(epoch)
    if not reached then
      return false
    end
    if reached > number(ARGV[2]) then
      return epoch
    end
  end
end
if buckets == 0 then
  return {}
end

local holding = ARGV[1] == 'hold'
local may_write = holding or ARGV[1] == 'take'
local taking = may_write
local time = call('TIME')
local seconds, micros = number(time[1]), number(time[2])
local answers, states, keeps
-- One string needs no tables.
local many = buckets > 1 or holding
if many then
  answers, states, keeps = {}, {}, {}
end

for i = 1, buckets do
  local algorithm, shadow, per_second, limit, size, cost = unpacked('<c1Bdddd', ARGV[2 + i])
  local now = seconds * per_second + floor(micros * per_second / 1000000)
  local key, state = KEYS[lanes + i], kept[lanes + i]
  -- Each algorithm sets its answer and, where there is room, the state after this call and for how many ticks that matters.
  -- A clock that was more than a second ahead was wrong: the state is mended, to go on from now, and kept even where the call is
  -- denied, or its caller would wait until that time comes. One that was a little ahead is waited for. What no call of ours can
  -- have written, of another type, length or range, is none: the next that is taken replaces it.
  local answer, after, ticks, mended, mended_ticks
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
  if mended and may_write then
    call('PSETEX', key, format('%d', ceil(mended_ticks * 1000 / per_second) + 60000), mended)
  end
  if after then
    -- A minute more than it matters, against clocks that differ.
    local keep = format('%d', ceil(ticks * 1000 / per_second) + 60000)
    if not many then
      if taking then
        call('PSETEX', key, keep, after)
      end
      return answer
    end
    states[i], keeps[i] = after, keep
  elseif not many then
    return answer
  elseif shadow == 0 then
    taking = false
  end
  answers[i] = answer
end

if taking then
  for i = 1, buckets do
    local key, state = KEYS[lanes + i], states[i]
    if type(state) == 'string' then
      call('PSETEX', key, keeps[i], state)
    elseif state then
      -- A log: what is pushed onto the entries that still count.
      if state.count > 0 then
        call('LTRIM', key, 0, state.count - 1)
      else
        call('DEL', key)
      end
      call('LPUSH', key, unpack(state))
      call('PEXPIRE', key, keeps[i])
    end
  end
end
if not holding then
  return buckets == 1 and answers[1] or answers
end
local marks = {}
for i = 1, taking and buckets or 0 do
  local state, mark, tick = states[i], nil, nil
  if type(state) == 'string' then
    mark, tick = unpacked('<dd', state)
    if unpacked('<c1', ARGV[2 + i]) == 't' then
      mark = tick
    end
  elseif state then
    mark = number(state[1])
  end
  marks[i] = mark or false
end
return { answers, marks }
