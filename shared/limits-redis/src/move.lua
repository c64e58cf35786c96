#!lua
-- Moves a lane up: its epoch, and with it the version that its registry entries have reached. Neither ever goes back.
--
-- KEYS  1 epoch, 2 reached
-- ARGV  1 the stamp to reach; 2 history and 3 revision reached, or '' where that is not told
-- Reply the lane's epoch
-- What is neither an epoch nor a version is overwritten.

local epoch = redis.pcall('GET', KEYS[1])
local at = type(epoch) == 'string' and string.match(epoch, '^%d+$') and tonumber(epoch)
if ARGV[2] ~= '' then
  local there = redis.pcall('GET', KEYS[2])
  local put = true
  if type(there) == 'string' then
    local history, revision = string.match(there, '^(%d+) (%d+)$')
    history, revision = tonumber(history), tonumber(revision)
    local own_history, own_revision = tonumber(ARGV[2]), tonumber(ARGV[3])
    put = not history or own_history > history or own_history == history and own_revision > revision
  end
  if put then
    redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3])
  end
end
if not at or at > 2 ^ 53 or tonumber(ARGV[1]) > at then
  redis.call('SET', KEYS[1], ARGV[1])
  return ARGV[1]
end
return epoch
