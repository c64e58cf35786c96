#!lua
-- Publishes a page of rules and changed names, and moves the head.
--
-- KEYS  1 head, 2 chunks, 3 stamps, 4 names
-- ARGV  1  history of the database, 2 its revision: the version that this page was read at
--       3  the least stamp to give, and 10 the stamp that the head must not be older than
--       4  where this page ends a publication, the random id of the revision that is now published, and 5 that revision; else ''
--       6  whether all lanes must reach this stamp ('1'), 7 whether readers must begin afresh, 8 whether they must forget their
--          registry views: heeded with the page that ends a publication
--       9  how many chunks follow after 10: number and body of each; a body begins with its version
--       then the names that changed
-- Reply the stamp of this publication; nil where the head is older than it was, or a part of what was published before is gone:
--       this page and what is left would pass for all of it; nil too where the history is neither published nor claimed
--
-- head is a hash: stamp (of the newest page), all (the stamp that every lane must have reached), base (readers older than this
-- begin afresh), floor (readers older than this forget their registry views), history, revision and change (its random id), building (the
-- history that was claimed last), chunks and names (how many there are).
-- A stamp is the time in ms, or one more than the last where that is greater: it never goes back, whatever happens to the
-- database.

local MOST_NAMES = 10000

local function newer(history, revision, than_history, than_revision)
  return history > than_history or history == than_history and revision > than_revision
end

--@whole
if not whole then
  if tonumber(ARGV[10]) ~= 0 then
    return false
  end
  -- Of what is left nothing is of use but the stamp, which never goes back, and what is being built. Without a revision it is not
  -- read until all is there.
  local stamp, building = redis.pcall('HGET', KEYS[1], 'stamp'), redis.pcall('HGET', KEYS[1], 'building')
  redis.call('DEL', unpack(KEYS))
  if tonumber(stamp) then
    redis.call('HSET', KEYS[1], 'stamp', stamp)
  end
  if tonumber(building) then
    redis.call('HSET', KEYS[1], 'building', building)
  end
end

local head = redis.call('HMGET', KEYS[1], 'stamp', 'history', 'revision', 'floor', 'building')
if tonumber(head[1] or 0) < tonumber(ARGV[10]) then
  return false
end
-- A history that is not published yet was claimed, and nobody has claimed another since.
if head[2] ~= ARGV[1] and head[5] ~= ARGV[1] then
  return false
end
local time = redis.call('TIME')
local stamp = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
stamp = math.max(stamp, tonumber(head[1] or 0) + 1, tonumber(ARGV[3]))
local text = string.format('%d', stamp)
local history, revision = tonumber(ARGV[1]), tonumber(ARGV[2])

local after = 11
for _ = 1, tonumber(ARGV[9]) do
  local chunk, body = ARGV[after], ARGV[after + 1]
  after = after + 2
  local there = redis.call('HGET', KEYS[2], chunk)
  -- An empty chunk is only worth a word where there was one that held something.
  local put = string.sub(body, -3) ~= '\n[]'
  if there then
    local than_history, than_revision = string.match(there, '^(%d+) (%d+)\n')
    -- What cannot be read is worth nothing.
    put = not than_history or newer(history, revision, tonumber(than_history), tonumber(than_revision))
  end
  if put then
    redis.call('HSET', KEYS[2], chunk, body)
    redis.call('ZADD', KEYS[3], text, chunk)
  end
end

for i = after, #ARGV do
  redis.call('ZADD', KEYS[4], text, ARGV[i])
end
local surplus = redis.call('ZCARD', KEYS[4]) - MOST_NAMES
local floor = tonumber(head[4] or 0)
if surplus > 0 then
  -- Whoever has not read the newest of those that go must forget all.
  local oldest = redis.call('ZRANGE', KEYS[4], surplus - 1, surplus - 1, 'WITHSCORES')
  floor = math.max(floor, tonumber(oldest[2]))
  redis.call('ZREMRANGEBYRANK', KEYS[4], 0, surplus - 1)
end

redis.call('HSET', KEYS[1], 'stamp', text)
if ARGV[4] ~= '' then
  if not head[3] or newer(history, tonumber(ARGV[5]), tonumber(head[2]), tonumber(head[3])) then
    redis.call('HSET', KEYS[1], 'history', ARGV[1], 'revision', ARGV[5], 'change', ARGV[4])
  end
  if ARGV[6] == '1' then
    redis.call('HSET', KEYS[1], 'all', text)
  end
  if ARGV[7] == '1' then
    redis.call('HSET', KEYS[1], 'base', text)
  end
  if ARGV[8] == '1' then
    floor = stamp
  end
end
redis.call('HSETNX', KEYS[1], 'all', text)
redis.call('HSETNX', KEYS[1], 'base', '0')
redis.call('HSET', KEYS[1], 'floor', string.format('%d', floor))
redis.call('HSET', KEYS[1], 'chunks', redis.call('HLEN', KEYS[2]), 'names', redis.call('ZCARD', KEYS[4]))
return text
