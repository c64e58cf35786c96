#!lua flags=allow-oom
-- What the registry says of a name; also where the memory is full, for it needs none.
--
-- KEYS  1 epoch, 2 reached, 3 the entry of the name
-- Reply an array of what stands there, nil where nothing does
-- Where something else stands in place of the entry, the lane has lost data: that it has reached anything is taken back, so that
-- nobody is called unknown, and refresh writes its entries again.

local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
if not found[3] and redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('DEL', KEYS[2], KEYS[3])
  found[2] = false
end
return found
