-- Takes submissions, each group whole or not at all, as if one after another.
local groups, ids = {}, {}
for g = 1, tonumber(nx()) do
  local group = {}
  for i = 1, tonumber(nx()) do
    local new = {id = nx(), queue = nx(), tenant = nx(), priority = nx(), digest = nx(), key = nx(), when = nx(),
      ms = tonumber(nx()), rest = nx(), payload = nx()}
    group[i] = new
    ids[#ids + 1] = new.id
  end
  groups[g] = group
end
for from = 1, #ids, 1000 do
  local keys = {}
  for i = from, math.min(from + 999, #ids) do keys[#keys + 1] = $job..ids[i] .. ':meta' end
  for i, meta in ipairs(redis.call('MGET', unpack(keys))) do
    local id = ids[from + i - 1]
    cache[id] = meta
  end
end

local known_keys = {}
local function holder_of(key)
  local id = known_keys[key]
  if id == nil then
    id = redis.call('GET', $job_key..key)
    known_keys[key] = id
  end
  return id
end

-- Whether there is room for one more, beyond those of its group that are not counted yet.
local function full(new, more)
  local of = rule('queue:' .. new.queue)
  local q = 'queue ' .. new.queue
  if of.waiting and count($queue..new.queue, 'waiting') + (more[q] or 0) >= of.waiting then
    return {'Full', 'queue', new.queue, of.waiting}
  end
  if new.tenant == '' then return nil end
  of = rule_of_tenant(new.tenant)
  if of.waiting and count($of_tenant..new.tenant, 'waiting') + (more[new.tenant] or 0) >= of.waiting then
    return {'Full', 'tenant', new.tenant, of.waiting}
  end
end

local function digest_of(job)
  return job.digest or job.rest:match('^,%d+,%d+,%d+,%d+,(%d+)')
end

-- What a group comes to; nothing is written.
local function judge(group)
  local answers, coming, with_key, more = {}, {}, {}, {}
  for i, new in ipairs(group) do
    local key = new.key ~= '' and new.tenant .. ':' .. new.queue .. ':' .. new.key or nil
    local there = cache[new.id] and job_of(new.id) or coming[new.id]
    if not there and key then
      there = with_key[key]
      local id = not there and holder_of(key)
      there = there or (id and job_of(id))
    end
    if there then
      if digest_of(there) ~= new.digest then return {'OpReused'} end
      answers[i] = {there.id, 1}
    else
      local no = has_rules and full(new, more)
      if no then return no end
      coming[new.id] = new
      if key then
        with_key[key] = new
        new.with = key
      end
      more['queue ' .. new.queue] = (more['queue ' .. new.queue] or 0) + 1
      more[new.tenant] = (more[new.tenant] or 0) + 1
      new.comes = true
      answers[i] = {new.id, 0}
    end
  end
  return {'ok', answers}
end

local seq
local at_now = s(now)
local function accept(new)
  seq = (seq or tonumber(redis.call('GET', $job_seq) or '0')) + 1
  local run_at = at_now
  if new.when == 'in' then run_at = s(after_now(new.ms)) elseif new.when == 'at' then run_at = s(math.max(new.ms, now)) end
  local job = {id = new.id, version = 1, attempt = 0, deliveries = 0, fence = '0', worker = '', lease = '0',
    runAt = run_at, submitted = at_now, started = '0', queue = new.queue, tenant = new.tenant, priority = new.priority,
    seq = s(seq), rest = new.rest, status = 'pending', meta = false, error = false}
  cache[new.id] = job
  local key, n = $job..new.id, #sets
  sets[n + 1], sets[n + 2] = key .. ':status', 'pending'
  sets[n + 3], sets[n + 4] = key .. ':submitted_at', at_now
  sets[n + 5], sets[n + 6] = key .. ':meta', meta_of(job)
  if new.payload ~= '' then sets[n + 7], sets[n + 8] = key .. ':payload', new.payload end
  if new.with then
    redis.call('SET', $job_key..new.with, new.id)
    known_keys[new.with] = new.id
  end
  put_waiting(job, member_of(job))
end

-- Counts a group, lane by lane.
local function count_group(group)
  local lanes = {}
  for _, new in ipairs(group) do
    if new.comes then
      local lane = new.queue .. ':' .. new.tenant
      local of = lanes[lane]
      if not of then
        of = {new.queue, new.tenant, 0}
        lanes[lane] = of
      end
      of[3] = of[3] + 1
    end
  end
  for _, of in pairs(lanes) do
    wakes = true
    add_count($queue..of[1], 'waiting', of[3])
    if of[2] ~= '' then add_count($of_tenant..of[2], 'waiting', of[3]) end
  end
end

local out = {}
for g, group in ipairs(groups) do
  out[g] = judge(group)
  if out[g][1] == 'ok' then
    for _, new in ipairs(group) do
      if new.comes then accept(new) end
    end
    count_group(group)
  end
end
if seq then redis.call('SET', $job_seq, s(seq)) end
finish()
return out
