#!lua flags=allow-oom
-- What was published after a reader's number; also where the memory is full, for it needs none.
--
-- KEYS  1 head, 2 chunks, 3 stamps, 4 names
-- ARGV  1  the reader's number: the stamp that it has caught up to, 0 for a cold start
--       2  how many chunks to send along
-- Reply nil where nothing is published, or not all of it is there; else an array of
--       the head's stamp, which is the reader's number once it has read all of this
--       1 where the reader must begin afresh, with no rules
--       1 where the reader must forget its whole registry view
--       the changed names
--       the changed chunks, by number
--       the bodies of the first of them
--       1 where so many chunks changed that none is listed and every one must be read: two hundred readers at once must not hold
--       up a decision with long lists. So many names are not listed either: the registry view is then forgotten
--       the revision of the database that is published; 0 where it cannot be read

local MOST_LISTED = 500

--@whole
if not whole then
  return false
end
local head = redis.call('HMGET', KEYS[1], 'stamp', 'revision', 'base', 'floor')
local stamp, published, base, floor = head[1], head[2], tonumber(head[3]), tonumber(head[4])
if not (stamp and published) then
  return false
end
local from = tonumber(ARGV[1])
local fresh = from < base
local forget = from < floor or redis.call('ZCOUNT', KEYS[4], '(' .. ARGV[1], '+inf') > MOST_LISTED
local after = '(' .. (fresh and '0' or ARGV[1])
local every = redis.call('ZCOUNT', KEYS[3], after, '+inf') > MOST_LISTED
local chunks = {}
if not every then
  chunks = redis.call('ZRANGEBYSCORE', KEYS[3], after, '+inf')
end
local names = {}
if not forget then
  names = redis.call('ZRANGEBYSCORE', KEYS[4], '(' .. ARGV[1], '+inf')
end
local first = {}
for i = 1, math.min(#chunks, tonumber(ARGV[2])) do
  first[i] = chunks[i]
end
local bodies = {}
if #first > 0 then
  bodies = redis.call('HMGET', KEYS[2], unpack(first))
end
return { stamp, fresh and 1 or 0, forget and 1 or 0, names, chunks, bodies, every and 1 or 0, tonumber(published) or 0 }
