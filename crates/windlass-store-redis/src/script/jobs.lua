-- Jobs: what all their scripts share. A job is read once and kept here; what becomes of it is written at the end. Entries
-- of sorted sets are written where a phase ends, because the next one reads them.
local cache, counts, changed = {}, {}, {}
local sets, dels, adds, rems = {}, {}, {}, {}
local ended_ids, wakes = {}, false
-- A record is short, because every text a script touches is hashed: version, attempt, deliveries, fence, worker, end of
-- the lease, not before, submitted, started, queue, tenant, priority, place in the order of submission, and the rest.
local META = '^%[(%d+),(%d+),(%d+),(%d+),"([^"]*)",(%d+),(%d+),(%d+),(%d+),"([^"]*)","([^"]*)",(%-?%d+),(%d+)(.*)%]$'
local has_rules = redis.call('EXISTS', $rules) == 1

-- A job from its record. Every field it may ever have is named here, so that its table never grows.
local function parsed(id, text)
  local version, attempt, deliveries, fence, worker, lease, run_at, submitted, started, queue, tenant, priority, seq, rest =
    text:match(META)
  return {id = id, version = version, attempt = attempt, deliveries = deliveries, fence = fence, worker = worker,
    lease = lease, runAt = run_at, submitted = submitted, started = started, queue = queue, tenant = tenant,
    priority = priority, seq = seq, rest = rest, status = false, meta = false, error = false}
end

-- Reads jobs, those that are not known yet, many at a time.
local function preload(ids)
  for from = 1, #ids, 1000 do
    local want, keys = {}, {}
    for i = from, math.min(from + 999, #ids) do
      local id = ids[i]
      if cache[id] == nil then
        want[#want + 1] = id
        keys[#keys + 1] = $job..id .. ':meta'
      end
    end
    if #keys > 0 then
      local got = redis.call('MGET', unpack(keys))
      for i = 1, #want do cache[want[i]] = got[i] end
    end
  end
end

-- Records are taken apart when somebody asks: what is most common is done without.
local statuses = {}
local function job_of(id)
  if cache[id] == nil then preload({id}) end
  local job = cache[id]
  if type(job) == 'string' then
    job = parsed(id, job)
    job.status = statuses[id] or false
    cache[id] = job
  end
  return job or nil
end

local function write(job, name, value)
  local n = #sets
  sets[n + 1] = $job..job.id .. ':' .. name
  sets[n + 2] = value
end

local function forget_part(job, name)
  dels[#dels + 1] = $job..job.id .. ':' .. name
end

local function meta_of(job)
  return '[' .. job.version .. ',' .. job.attempt .. ',' .. job.deliveries .. ',' .. job.fence .. ',"' .. job.worker
    .. '",' .. job.lease .. ',' .. job.runAt .. ',' .. job.submitted .. ',' .. job.started .. ',"' .. job.queue .. '","'
    .. job.tenant .. '",' .. job.priority .. ',' .. job.seq .. job.rest .. ']'
end

local function write_meta(job)
  job.version = job.version + 1
  job.meta = meta_of(job)
  write(job, 'meta', job.meta)
end

local function status_of(job)
  if job.worker ~= '' then return 'running' end
  if not job.status then job.status = redis.call('GET', $job..job.id .. ':status') end
  return job.status
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

local function zadd(key, score, member)
  local of = adds[key]
  if not of then
    of = {}
    adds[key] = of
  end
  of[#of + 1] = score
  of[#of + 1] = member
end

local function zrem(key, member)
  local of = rems[key]
  if not of then
    of = {}
    rems[key] = of
  end
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

-- The end of the script: everything is written, and those who wait hear of it. Answers what ended, as they hear it.
local function finish()
  flush()
  for i = 1, #dels, 4000 do redis.call('UNLINK', unpack(dels, i, math.min(i + 3999, #dels))) end
  for i = 1, #sets, 4000 do redis.call('MSET', unpack(sets, i, math.min(i + 3999, #sets))) end
  for key, fields in pairs(changed) do
    for field, n in pairs(fields) do
      if n ~= 0 and redis.call('HINCRBY', key, field, n) == 0 then redis.call('HDEL', key, field) end
    end
  end
  local said = ''
  if #ended_ids > 0 then
    local n = redis.call('HINCRBY', $marks, 'ended', #ended_ids)
    said = 'ended ' .. s(n) .. ' ' .. table.concat(ended_ids)
    redis.call('PUBLISH', $wake, said)
  end
  if wakes then wake('jobs') end
  return said
end

-- Rules, each read once: {running, waiting, held}.
local NONE, rules = {}, {}
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

-- The place among a tenant's jobs: by priority, time and order of submission. It is as long for every job.
local ZEROS = '0000000000000000'
local NORMAL = '127'
local function member_of(job)
  local run_at, seq = job.runAt, job.seq
  local priority = job.priority == '0' and NORMAL or string.format('%03d', 127 - job.priority)
  return priority .. ZEROS:sub(#run_at + 2) .. run_at .. ZEROS:sub(#seq + 1) .. seq .. job.id
end

-- Turns are taken in the order of the server's own clock, whatever a caller's says: a microsecond for each turn, which
-- takes longer than that.
local turn_at = time[1] * 1000000 + time[2]
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

local joined = {}
local function put_waiting(job, member)
  local lane = job.queue .. ':' .. job.tenant
  if tonumber(job.runAt) <= now then
    zadd($lane..lane, 0, member)
    if not joined[lane] then
      joined[lane] = true
      join_ring(job.queue, job.tenant)
    end
  else
    zadd($queues, 0, job.queue)
    zadd($lanes..job.queue, 0, job.tenant)
    zadd($later..job.queue, job.runAt, member .. job.tenant)
    zadd($waits..lane, 0, member)
  end
end

-- It waits, and is counted.
local function enter_waiting(job)
  put_waiting(job, member_of(job))
  add_count($queue..job.queue, 'waiting', 1)
  if job.tenant ~= '' then add_count($of_tenant..job.tenant, 'waiting', 1) end
  wakes = true
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

local function leave_running(job)
  zrem($running..job.queue, job.id .. job.tenant)
  if job.tenant ~= '' then add_count($of_tenant..job.tenant, 'running', -1) end
  if has_rules then
    wakes = true
    if job.tenant ~= '' then unpark(job.tenant) end
  end
end

-- What people asked stands behind the rest, which is fixed: the fixed part, a request to end, and who asked last.
local function asked_of(job)
  local fixed, cancel, asked = job.rest, '', ''
  local from = fixed:find(',{"asked":', 1, true)
  if from then fixed, asked = fixed:sub(1, from - 1), fixed:sub(from) end
  from = fixed:find(',{"cancel":', 1, true)
  if from then fixed, cancel = fixed:sub(1, from - 1), fixed:sub(from) end
  return fixed, cancel, asked
end

local function wants_end(job)
  return job.rest:find(',{"cancel":', 1, true) ~= nil
end

-- Nobody runs it any more. Its fence stays: what comes late under it is known.
local function left(job, status)
  job.status, job.worker, job.deliveries, job.lease = status, '', 0, '0'
  if wants_end(job) then
    local fixed, _, asked = asked_of(job)
    job.rest = fixed .. asked
  end
  write(job, 'status', status)
  write_meta(job)
end

-- When something that began then ends, as text, and as it stands in the list of ended jobs.
local now_text, now_newest = s(now), string.format('%015.0f', MAX - now)
local function end_of(begun)
  begun = tonumber(begun)
  if begun <= now then return now_text, now_newest end
  return s(begun), string.format('%015.0f', MAX - begun)
end

local function ended(job, status)
  local text, newest = end_of(job.started ~= '0' and job.started or job.submitted)
  write(job, 'completed_at', text)
  zadd($ended_jobs..status, 0, newest .. job.id .. job.queue .. ':' .. job.tenant)
  ended_ids[#ended_ids + 1] = job.id
  left(job, status)
end

local function failed(job, text)
  job.error = text
  write(job, 'error', text)
  leave_running(job)
  ended(job, 'failed')
end

local function waits_again(job, run_at)
  leave_running(job)
  job.runAt = s(math.min(math.max(run_at, now), MAX))
  left(job, 'pending')
  enter_waiting(job)
end

local function windlass_error(code, message)
  return '{"class":"windlass","message":"' .. message .. '","code":"' .. code .. '"}'
end

local function numbers_of(job)
  local most, first, longest, timeout =
    job.rest:match('^,(%d+),(%d+),(%d+),(%d+)')
  return tonumber(most), tonumber(first), tonumber(longest), tonumber(timeout)
end

-- The next attempt after its pause, if there is one. `spread` of 0 to 999 takes up to half of the pause away.
local function again_or_failed(job, text, retry, spread)
  local most, first, longest = numbers_of(job)
  local tried = tonumber(job.attempt)
  if not retry or tried >= most then return failed(job, text) end
  local full = math.min(first * 2 ^ (math.max(tried, 1) - 1), longest)
  job.error = text
  write(job, 'error', text)
  waits_again(job, now + full - math.floor(full * 0.5 * (math.min(spread, 999) / 1000)))
end

local function deadline(job)
  local _, _, _, timeout = numbers_of(job)
  if timeout == 0 then return nil end
  return tonumber(job.started) + timeout, timeout
end

-- Judges a running job whose lease has run out: whether it ends or waits for its next attempt, and is not delivered again.
local function expire(job)
  if wants_end(job) then
    failed(job, windlass_error('CANCELLED', 'its end was asked for, and its worker was not heard of again'))
    return true
  end
  local till, timeout = deadline(job)
  if till and till <= now then
    again_or_failed(job, windlass_error('TIMEOUT', 'no answer within ' .. s(timeout) .. ' ms'), true, 0)
    return true
  end
  if tonumber(job.deliveries) >= 3 then
    failed(job, windlass_error('LOST', 'delivered ' .. job.deliveries .. ' times, and no worker answered'))
    return true
  end
  return false
end

-- Judges what ran out in a queue, and hands what may be delivered again to `again`, until that says that it is enough.
local function judge_queue(queue, look_max, again)
  local passed, looked = 0, 0
  while looked < look_max do
    local entries = redis.call('ZRANGEBYSCORE', $running..queue, '-inf', s(now), 'LIMIT', passed, 200)
    local ids = {}
    for i, entry in ipairs(entries) do ids[i] = entry:sub(1, 36) end
    preload(ids)
    for i, id in ipairs(ids) do
      local job = job_of(id)
      looked = looked + 1
      if not job then
        redis.call('ZREM', $running..queue, entries[i])
      elseif not expire(job) then
        local said = again(job)
        if said == 'enough' then return end
        if said == 'stays' then passed = passed + 1 end
      end
    end
    flush()
    if #ids < 200 then return end
  end
end
