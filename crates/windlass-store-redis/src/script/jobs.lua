-- Jobs: what all their scripts share. A job is read once and kept here; what becomes of it is written at the end. Entries
-- of sorted sets are written where a phase ends, because the next one reads them.
local JOB, has_rules, rules, joined
local cache, statuses, counts, changed
local sets, set_n, dels, adds, rems
local ended_ids, wakes
clears[#clears + 1] = function()
  cache, statuses, counts, changed, rules, joined = {}, {}, {}, {}, {}, {}
  sets, set_n, dels, adds, rems = {}, 0, {}, {}, {}
  ended_ids, wakes = {}, false
end
clears[#clears]()

-- Now as text, and as it stands in the list of ended jobs; when the last turn was taken.
local now_text, now_newest, turn_at
begins[#begins + 1] = function()
  JOB, has_rules = $job, redis.call('EXISTS', $rules) == 1
  now_text, now_newest = s(now), string.format('%015.0f', MAX - now)
  turn_at = time[1] * 1000000 + time[2]
end

-- Reads jobs, those that are not known yet, many at a time.
local function preload(ids)
  for from = 1, #ids, 1000 do
    local want, keys, n = {}, {}, 0
    for i = from, math.min(from + 999, #ids) do
      local id = ids[i]
      if cache[id] == nil then
        n = n + 1
        want[n] = id
        keys[2 * n - 1], keys[2 * n] = JOB .. id .. ':meta', JOB .. id .. ':status'
      end
    end
    if n > 0 then
      local got = redis.call('MGET', unpack(keys))
      for i = 1, n do
        local id = want[i]
        cache[id], statuses[id] = got[2 * i - 1], got[2 * i]
      end
    end
  end
end

-- Counts change at the end; one that a limit asks for is read once.
local function change_of(key)
  local of = changed[key]
  if not of then
    of = {}
    changed[key] = of
  end
  return of
end

local function add_count(key, field, n)
  local of = change_of(key)
  of[field] = (of[field] or 0) + n
end

local function count(key, field)
  local of = counts[key]
  if not of then
    of = {}
    counts[key] = of
  end
  if not of[field] then of[field] = tonumber(redis.call('HGET', key, field) or '0') end
  return of[field] + (change_of(key)[field] or 0)
end

local function list_of(lists, key)
  local of = lists[key]
  if not of then
    of = {}
    lists[key] = of
  end
  return of
end

local function zadd(key, score, member)
  local of = list_of(adds, key)
  local n = #of
  of[n + 1], of[n + 2] = score, member
end

local function zrem(key, member)
  local of = list_of(rems, key)
  of[#of + 1] = member
end

-- The end of a phase: entries are written.
local function flush()
  for key, list in pairs(rems) do
    for i = 1, #list, 4000 do redis.call('ZREM', key, unpack(list, i, math.min(i + 3999, #list))) end
  end
  for key, list in pairs(adds) do
    for i = 1, #list, 4000 do redis.call('ZADD', key, unpack(list, i, math.min(i + 3999, #list))) end
  end
  rems, adds = {}, {}
end

-- The end of the script: everything is written, and those who wait hear of it.
local function finish()
  flush()
  for i = 1, #dels, 4000 do redis.call('UNLINK', unpack(dels, i, math.min(i + 3999, #dels))) end
  for i = 1, set_n, 4000 do redis.call('MSET', unpack(sets, i, math.min(i + 3999, set_n))) end
  for key, fields in pairs(changed) do
    for field, n in pairs(fields) do
      if n ~= 0 and redis.call('HINCRBY', key, field, n) == 0 then redis.call('HDEL', key, field) end
    end
  end
  if #ended_ids > 0 then
    tell_all('ended ' .. s(redis.call('HINCRBY', $marks, 'ended', #ended_ids)) .. ' ' .. table.concat(ended_ids))
  end
  if wakes then wake('jobs') end
end

-- Rules, each read once: {running, waiting, held}.
local NONE = {}
local function rule(field)
  if not has_rules then return NONE end
  local of = rules[field]
  if not of then
    local text = redis.call('HGET', $rules, field)
    of = NONE
    if text then
      local said = cjson.decode(text)
      local limits = said.limits or {}
      of = {running = limits.running, waiting = limits.waiting, held = said.held ~= nil}
    end
    rules[field] = of
  end
  return of
end

-- A tenant's own bounds if it has any, those of each tenant otherwise; held if either is.
local function rule_of_tenant(tenant)
  if not has_rules or tenant == '' then return NONE end
  local own, each = rule('tenant:' .. tenant), rule('each')
  local of = (own.running or own.waiting) and own or each
  return {running = of.running, waiting = of.waiting, held = own.held or each.held}
end

-- To make numbers as long as each other, and the usual priority.
local ZEROS, NORMAL = '0000000000000000', '127'

-- Turns are taken in the order of the server's own clock, whatever a caller's says: a microsecond for each turn, which
-- takes longer than that.
local function next_turn()
  turn_at = turn_at + 1
  return turn_at
end

-- A tenant whose turn may come goes behind the others. Who is there already is known to lists, too.
local function join_ring(queue, tenant)
  if redis.call('ZADD', $ring..queue, 'NX', next_turn(), tenant) == 1 then
    zadd($queues, 0, queue)
    zadd($lanes..queue, 0, tenant)
  end
end

-- Something was put into a lane.
local function join_lane(queue, tenant)
  local lane = queue .. ':' .. tenant
  if not joined[lane] then
    joined[lane] = true
    join_ring(queue, tenant)
  end
end

local function put_waiting(job, member)
  local lane = job.queue .. ':' .. job.tenant
  if tonumber(job.runAt) <= now then
    zadd($lane..lane, 0, member)
    join_lane(job.queue, job.tenant)
  else
    zadd($queues, 0, job.queue)
    zadd($lanes..job.queue, 0, job.tenant)
    zadd($later..job.queue, job.runAt, member .. job.tenant)
    zadd($waits..lane, 0, member)
  end
end

local function count_started(queue, tenant, n)
  add_count($queue..queue, 'waiting', -n)
  if tenant ~= '' then
    add_count($of_tenant..tenant, 'waiting', -n)
    add_count($of_tenant..tenant, 'running', n)
  end
end

-- A slot is free: those whom a limit kept from taking turns take part again.
local function unpark(tenant)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', $parked, '[' .. tenant .. ' ', '[' .. tenant .. ' ~')) do
    join_ring(member:sub(#tenant + 2), tenant)
    redis.call('ZREM', $parked, member)
  end
end

-- When something that began then ends, as text, and as it stands in the list of ended jobs.
local function end_of(begun)
  begun = tonumber(begun)
  if begun <= now then return now_text, now_newest end
  return s(begun), string.format('%015.0f', MAX - begun)
end
