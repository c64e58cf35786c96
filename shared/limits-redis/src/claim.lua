#!lua
-- Claims a history of the database before anything of it is written. Whoever begins one at the same time, or after one that was
-- cut off, builds the same: else what the one had written would outrank for good what the other publishes.
--
-- KEYS  1 head
-- ARGV  1  a history that is newer than all that the caller knows of
--       2  the newest that it knows of
-- Reply the history to build

local found = redis.pcall('HMGET', KEYS[1], 'history', 'building')
if found.err then
  redis.call('DEL', KEYS[1])
  found = {}
end
local history, building = tonumber(found[1] or 0) or 0, tonumber(found[2] or 0) or 0
if building > history and building > tonumber(ARGV[2]) then
  return found[2]
end
local claimed = string.format('%d', math.max(tonumber(ARGV[1]), history + 1))
redis.call('HSET', KEYS[1], 'building', claimed)
return claimed
