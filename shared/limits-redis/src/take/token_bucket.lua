-- State: the level and the tick that it was true at, as two doubles. All products that matter are at most 2^52; a larger one
-- rounds, and is then still larger than any level.
local level, tick = 0, now
if state then
  level, tick = struct.unpack('<dd', state)
  if tick <= now then
    level = level - (now - tick) * limit
    if level < 0 then
      level = 0
    end
    tick = now
  elseif tick - now > per_second then
    -- A clock that was so far ahead was wrong: go on from now, for good, or a denied caller would wait until that time comes.
    -- One that was a little ahead is waited for.
    tick = now
    if ARGV[1] == 'take' then
      local keep = format('%d', ceil(level / limit * 1000 / per_second) + 60000)
      call('PSETEX', key, keep, struct.pack('<dd', level, tick))
    end
  end
end
if level + cost <= capacity then
  answer = level
  after = struct.pack('<dd', level + cost, tick)
  ticks = (level + cost) / limit + tick - now
else
  answer = -1 - level
end
if tick > now then
  answer = { answer, tick - now }
end
