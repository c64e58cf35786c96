-- State: the level and the tick that it was true at, as two doubles. All products that matter are at most 2^52; a larger one
-- rounds, and is then still larger than any level.
-- Answer: the level; { level, ahead } where the bucket's own clock is so many ticks ahead.
local level, tick = 0, now
if state and #state == 16 then
  level, tick = unpacked('<dd', state)
  if not (level >= 0 and level <= 2 ^ 52 and tick >= 0 and tick <= 2 ^ 53) then
    level, tick = 0, now
  end
  if tick <= now then
    level = level - (now - tick) * limit
    if level < 0 then
      level = 0
    end
    tick = now
  elseif tick - now > per_second then
    tick = now
    mended, mended_ticks = pack('<dd', level, tick), level / limit
  end
end
if level + cost <= size then
  answer = level
  after = pack('<dd', level + cost, tick)
  ticks = (level + cost) / limit + tick - now
else
  answer = -1 - level
end
if tick > now then
  answer = { answer, tick - now }
end
