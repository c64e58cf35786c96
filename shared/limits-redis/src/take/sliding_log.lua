-- State: a list of when each request was taken, newest first.
-- Answer: { count, empty_in, fits_in }: in how many ticks the newest counts no more, and in how many the cost fits.
-- Looked at from both ends, where a list is quick: what counts no more lies at its tail, and is cut off by the next that is taken.
local from, count, entries = now, 0, 0
local newest = number(call('LINDEX', key, 0))
if newest then
  entries = call('LLEN', key)
  if newest - now > per_second then
    if may_write then
      -- Those from the future are taken now.
      local low, high = 0, entries
      while low < high do
        local middle = floor((low + high) / 2)
        if number(call('LINDEX', key, middle)) > now then
          low = middle + 1
        else
          high = middle
        end
      end
      if low < entries then
        call('LTRIM', key, low, -1)
      else
        call('DEL', key)
      end
      local text = format('%d', now)
      while low > 0 do
        local some = {}
        for n = 1, low < 1000 and low or 1000 do
          some[n] = text
        end
        call('LPUSH', key, unpack(some))
        low = low - #some
      end
      call('PEXPIRE', key, format('%d', ceil(size * 1000 / per_second) + 60000))
    end
  elseif newest > now then
    from = newest
  end
end
local function taken_at(index)
  local tick = number(call('LINDEX', key, index))
  return tick < from and tick or from
end
-- The first entry that counts no more lies between an entry that counts and one that does not: steps from the tail grow until
-- both are known, then halve.
local counts, gone, step = -1, entries, 1
while gone > 0 do
  local index = gone - step
  if index < 0 then
    index = 0
  end
  if taken_at(index) + size > from then
    counts = index
    break
  end
  gone, step = index, step * 2
end
while gone - counts > 1 do
  local middle = floor((counts + gone) / 2)
  if taken_at(middle) + size > from then
    counts = middle
  else
    gone = middle
  end
end
count = gone
local empty_in = count > 0 and taken_at(0) + size - now or 0
if count + cost <= limit then
  answer = { count, empty_in, 0 }
  after = { count = count }
  local text = format('%d', from)
  for n = 1, cost do
    after[n] = text
  end
  ticks = from + size - now
else
  answer = { -1 - count, empty_in, taken_at(limit - cost) + size - now }
end
