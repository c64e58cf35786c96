-- State: when the window began, what the one before it has counted, and what it has counted itself, as three doubles.
-- Answer: { current, previous, left, ahead }: how many ticks are left of the window, and by how many its beginning is ahead.
-- A sum of three products may round, above 2^53; it is then still larger than any limit.
local from, start, previous, current = now, now - now % size, 0, 0
if state and #state == 24 then
  local began, before, counted = unpacked('<ddd', state)
  if not (before >= 0 and before <= 1e9 and counted >= 0 and counted <= 1e9) then
    before, counted = 0, 0
  end
  if began - now > per_second then
    previous, current = before, counted
    -- What only the window before has counted is over with this one.
    mended, mended_ticks = pack('<ddd', start, previous, current), start + (current > 0 and 2 or 1) * size - now
  elseif began >= start then
    from, start, previous, current = began > now and began or now, began, before, counted
  elseif began + size == start then
    previous = counted
  end
end
local left = start + size - from
if previous * left + (current + cost) * size <= limit * size then
  answer = { current, previous, left, from - now }
  after = pack('<ddd', start, previous, current + cost)
  ticks = start + 2 * size - now
else
  answer = { -1 - current, previous, left, from - now }
end
