-- State: a list of when each request was taken, newest first.
-- Answer: { count, empty_in, fits_in }: in how many ticks the newest counts no more, and in how many the cost fits.
-- Looked at from both ends, where a list is quick: what counts no more lies at its tail, and is cut off by the next that is taken.
-- An entry that is no number was not taken by us, and counts no more.
if not many then
  -- No string.
  many, answers, states, keeps = true, {}, {}, {}
end
local from, count, entries, ahead = now, 0, 0, 0
local newest = number(redis.pcall('LINDEX', key, 0))
if newest and newest >= 0 then
  entries = call('LLEN', key)
  if newest - now > per_second then
    -- Those from the future are forgotten, not moved: to write up to ten thousand entries would hold everybody up.
    local low = entries
    while ahead < low do
      local middle = floor((ahead + low) / 2)
      if (number(call('LINDEX', key, middle)) or 0) > now then
        ahead = middle + 1
      else
        low = middle
      end
    end
    entries = entries - ahead
    if may_write then
      -- Of a list of which nothing is left nothing stays.
      call('LTRIM', key, ahead, -1)
      call('PEXPIRE', key, format('%d', ceil(size * 1000 / per_second) + 60000))
      ahead = 0
    end
  elseif newest > now then
    from = newest
  end
end
local function taken_at(index)
  local tick = number(call('LINDEX', key, ahead + index)) or 0
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
local empty_in = count > 0 and math.max(0, taken_at(0) + size - now) or 0
if count + cost <= limit then
  answer = { count, empty_in, 0 }
  after = { count = count }
  local text = format('%d', from)
  for n = 1, cost do
    after[n] = text
  end
  ticks = from + size - now
else
  answer = { -1 - count, empty_in, math.max(0, taken_at(limit - cost) + size - now) }
end
