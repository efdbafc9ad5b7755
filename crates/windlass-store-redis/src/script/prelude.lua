-- What every script begins with. Parts define what they need once, the file of the script itself runs each time: a part
-- says in `clears` what it must not keep from one call to the next, and in `begins` what it needs to know of this one.
local P, args, time, us, now, at
local MAX = 253402128000000
local clears, begins, is_clear = {}, {}, true
-- What was said to those who wait, and whether nobody but the caller listens.
local said, alone = {}, nil

local function clear()
  args, said, alone = nil, {}, nil
  for i = 1, #clears do clears[i]() end
  is_clear = true
end

-- The first key is the prefix of every key. The first argument is how far the caller's clock runs ahead, the second
-- whether the caller listens.
local function start(keys, given)
  -- The call before this one may have ended in the middle.
  if not is_clear then clear() end
  is_clear = false
  P, args, at = keys[1], given, 2
  time = redis.call('TIME')
  us = time[1] * 1000000 + time[2] + args[1] * 1000
  now = math.floor(us / 1000)
  for i = 1, #begins do begins[i]() end
end

-- The next argument.
local function nx()
  at = at + 1
  return args[at]
end

-- A whole number as text: Lua would write a large one with an exponent.
local function s(n)
  return string.format('%.0f', n)
end

-- The same for numbers that come one after the other, of which all but the last three digits are nearly always those of
-- the one before: to write a number takes longer than to put two texts together.
local LAST, thousands, thousands_text = {}, nil, nil
local function next_s(n)
  if n < 1000 then return s(n) end
  local of = math.floor(n / 1000)
  if of ~= thousands then thousands, thousands_text = of, s(of) end
  local last = LAST[n - 1000 * of]
  if not last then
    last = string.format('%03d', n - 1000 * of)
    LAST[n - 1000 * of] = last
  end
  return thousands_text .. last
end

-- So many milliseconds from now, and not beyond the end of time.
local function after_now(ms)
  local t = now + ms
  if t > MAX then return MAX end
  return t
end

-- Whether one number is smaller than another, both as text: they have up to 64 bits, and a number of Lua has 53.
local function less(a, b)
  local x, y = #a, #b
  if x ~= y then return x < y end
  return a < b
end

-- Says something to those who wait. The caller has it with the answer, and is not told twice if it alone would hear it.
local function tell_all(word)
  said[#said + 1] = word
  if alone == nil then alone = args[2] == '1' and redis.call('PUBSUB', 'NUMSUB', $wake)[2] == 1 end
  if not alone then redis.call('PUBLISH', $wake, word) end
end

-- Somebody may be waiting for this.
local function wake(port)
  tell_all(port .. ' ' .. s(redis.call('HINCRBY', $marks, port, 1)))
end

-- What the caller gets: the answer, and what was said.
local function answered(out)
  local words = said
  clear()
  return {out or false, unpack(words)}
end

-- Draws fences: so many, one after the other; answers the first.
local function draw(n)
  local last = tonumber(redis.call('GET', $fence) or '0')
  local first = last + 1
  if us > first then first = us end
  redis.call('SET', $fence, s(first + n - 1))
  return first
end
