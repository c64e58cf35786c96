#!lua
-- Gives back what a hold of take.lua took, where the call then found no room in another lane. No epoch is compared: what was
-- taken is given back whatever rules are in force by now.
--
-- KEYS  the buckets that were taken from, all of one lane
-- ARGV  two for each bucket: what take.lua was given of it, and the mark that it told
-- Reply from how many of them something was given back: nothing is where all of it has come back by itself, or the bucket is gone
--       or of another window by now
--
-- What no call of ours can have written is for the next take to replace. A bucket's time to live stays as it is: it only becomes
-- full sooner.

local pack, unpacked = struct.pack, struct.unpack
local time = redis.call('TIME')
local given = 0

for i = 1, #KEYS do
  local key, mark = KEYS[i], tonumber(ARGV[2 * i])
  local algorithm, _, per_second, limit, size, cost = unpacked('<c1Bdddd', ARGV[2 * i - 1])
  if algorithm == 'l' then
    -- Those very entries; of several of one tick each is as good as another.
    local gone = redis.pcall('LREM', key, cost, ARGV[2 * i])
    if type(gone) == 'number' and gone > 0 then
      given = given + 1
    end
  else
    -- The state without the cost; '' where that is none.
    local state = redis.pcall('GET', key)
    local left
    if type(state) ~= 'string' or #state ~= (algorithm == 's' and 24 or 16) then
      left = nil
    elseif algorithm == 't' then
      local level, tick = unpacked('<dd', state)
      local sound = level >= 0 and level <= 2 ^ 52 and tick >= 0 and tick <= 2 ^ 53
      local back = sound and cost or 0
      if sound and tick ~= mark then
        -- Something was taken since. What has drained meanwhile has come back by that.
        local now = tonumber(time[1]) * per_second + math.floor(tonumber(time[2]) * per_second / 1000000)
        if tick < now then
          level, tick = math.max(0, level - (now - tick) * limit), now
        end
        if tick > mark then
          back = cost - (tick - mark) * limit
        end
      end
      if back > 0 then
        left = level > back and pack('<dd', level - back, tick) or ''
      end
    elseif algorithm == 'f' then
      local began, count = unpacked('<dd', state)
      if began == mark then
        left = count > cost and pack('<dd', began, count - cost) or ''
      end
    elseif algorithm == 's' then
      local began, previous, current = unpacked('<ddd', state)
      if began == mark then
        current = math.max(0, current - cost)
        left = pack('<ddd', began, previous, current)
      elseif began == mark + size then
        previous = math.max(0, previous - cost)
        left = pack('<ddd', began, previous, current)
      end
      if left and previous + current == 0 then
        left = ''
      end
    else
      return redis.error_reply('ERR unknown algorithm')
    end
    if left then
      if left == '' then
        redis.call('DEL', key)
      else
        redis.call('SET', key, left, 'KEEPTTL')
      end
      given = given + 1
    end
  end
end
return given
