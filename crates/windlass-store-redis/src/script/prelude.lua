-- What every script begins with. KEYS[1] is the prefix of every key, ARGV[1] how far the caller's clock runs ahead.
local P = KEYS[1]
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2] + ARGV[1] * 1000
local now = math.floor(us / 1000)
local MAX = 253402128000000
local at = 1

-- The next argument.
local function nx()
  at = at + 1
  return ARGV[at]
end

-- A whole number as text: Lua would write a large one with an exponent.
local function s(n)
  return string.format('%.0f', n)
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

-- Somebody may be waiting for this.
local function wake(port)
  local n = redis.call('HINCRBY', $marks, port, 1)
  redis.call('PUBLISH', $wake, port .. ' ' .. s(n))
end

-- Draws fences: so many, one after the other; answers the first.
local function draw(n)
  local last = tonumber(redis.call('GET', $fence) or '0')
  local first = last + 1
  if us > first then first = us end
  redis.call('SET', $fence, s(first + n - 1))
  return first
end
