-- The least script that limits anything: the generic cell rate algorithm over one key, its state one integer, its reply another.
-- KEYS[1]: the bucket. ARGV: microseconds a request, microseconds of burst. Replies how full it is in microseconds, or -1.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
if arrival < now then arrival = now end
local next = arrival + tonumber(ARGV[1])
if next - now > tonumber(ARGV[2]) then return -1 end
redis.call('SET', KEYS[1], string.format('%d', next), 'PX', 60000)
return next - now
