#!lua
-- What is published.
--
-- KEYS  1 head, 2 chunks, 3 stamps, 4 names
-- Reply an array: the head's stamp, all, history, revision, change and building, as put.lua has them; nil where nothing is published, or
--       a part of it is gone or something else by now: then all of it must be published again

--@whole
if not whole then
  return false
end
local head = redis.call('HMGET', KEYS[1], 'stamp', 'all', 'history', 'revision', 'change', 'building')
for i = 1, 6 do
  if not head[i] then
    return false
  end
end
return head
