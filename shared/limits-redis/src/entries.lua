#!lua
-- Writes registry entries of one lane, each unless a newer one stands there. What is no entry is overwritten.
--
-- KEYS  the entries
-- ARGV  1 history of the database, 2 its revision: the version that they were read at
--       3 how long in ms the mark of a deletion is kept, so that a writer who was held up cannot bring back what is gone
--       then for each the client as JSON, or '' where it is gone
-- Reply how many were written

local written = 0
for i = 1, #KEYS do
  local there = redis.pcall('GET', KEYS[i])
  local put = true
  if type(there) == 'string' then
    local history, revision = string.match(there, '^(%d+) (%d+)')
    history, revision = tonumber(history), tonumber(revision)
    local own_history, own_revision = tonumber(ARGV[1]), tonumber(ARGV[2])
    put = not history or own_history > history or own_history == history and own_revision >= revision
  end
  if put then
    local client = ARGV[3 + i]
    local version = ARGV[1] .. ' ' .. ARGV[2]
    if client == '' then
      redis.call('SET', KEYS[i], version, 'PX', ARGV[3])
    else
      redis.call('SET', KEYS[i], version .. ' ' .. client)
    end
    written = written + 1
  end
end
return written
