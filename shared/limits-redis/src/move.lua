#!lua
-- Moves a lane up: its epoch, and with it the version that its registry entries have reached. Neither ever goes back.
--
-- KEYS  1 epoch, 2 reached; either may be left out, where its arguments are ''
-- ARGV  1 the stamp to reach; 2 history and 3 revision reached
-- What is neither an epoch nor a version is overwritten.

if ARGV[2] ~= '' then
  local key = KEYS[#KEYS]
  local there = redis.pcall('GET', key)
  local put = true
  if type(there) == 'string' then
    local history, revision = string.match(there, '^(%d+) (%d+)$')
    history, revision = tonumber(history), tonumber(revision)
    local own_history, own_revision = tonumber(ARGV[2]), tonumber(ARGV[3])
    put = not history or own_history > history or own_history == history and own_revision > revision
  end
  if put then
    redis.call('SET', key, ARGV[2] .. ' ' .. ARGV[3])
  end
end
if ARGV[1] ~= '' then
  local epoch = redis.pcall('GET', KEYS[1])
  local at = type(epoch) == 'string' and string.match(epoch, '^%d+$') and tonumber(epoch)
  if not at or at > 2 ^ 53 or tonumber(ARGV[1]) > at then
    redis.call('SET', KEYS[1], ARGV[1])
  end
end
