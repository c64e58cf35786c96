-- State: when the window began and what it has counted, as two doubles.
-- Answer: { count, left }: how many ticks are left of the window.
local start, count = now - now % size, 0
if state and #state == 16 then
  local began, counted = unpacked('<dd', state)
  if not (counted >= 0 and counted <= 1e9) then
    counted = 0
  end
  if began - now > per_second then
    count = counted
    mended, mended_ticks = pack('<dd', start, count), start + size - now
  elseif began >= start then
    start, count = began, counted
  end
end
ticks = start + size - now
if count + cost <= limit then
  answer = { count, ticks }
  after = pack('<dd', start, count + cost)
else
  answer = { -1 - count, ticks }
end
