-- Whether the published rules are all there: what the head counts stands in the other three, and none of them is something else.
local whole = true
for i, kind in ipairs({ 'hash', 'hash', 'zset', 'zset' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  whole = whole and (found == kind or found == 'none')
end
if whole then
  local counts = redis.call('HMGET', KEYS[1], 'chunks', 'names')
  whole = tonumber(counts[1]) == redis.call('HLEN', KEYS[2])
    and tonumber(counts[1]) == redis.call('ZCARD', KEYS[3])
    and tonumber(counts[2]) == redis.call('ZCARD', KEYS[4])
end
