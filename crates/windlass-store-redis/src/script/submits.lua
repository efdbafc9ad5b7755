-- Submissions, as if one after another. What is asked for is read once.
local known_keys, lane_queue, lane_tenant, lane_adds
-- How many come, and where the last of them stands: places in the order of submission are drawn for all of them at once;
-- those that are not needed are left out.
local coming_n, seq
clears[#clears + 1] = function()
  known_keys, lane_queue, lane_tenant, lane_adds, coming_n, seq = {}, nil, nil, nil, 0, nil
end
clears[#clears]()

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
    local there = cache[new.id] and L.job_of(new.id) or coming[new.id]
    if not there and key then
      there = with_key[key]
      local id = not there and holder_of(key)
      there = there or (id and L.job_of(id))
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

local at_now, padded_now
begins[#begins + 1] = function()
  at_now = s(now)
  padded_now = ZEROS:sub(#at_now + 2) .. at_now
end

local function accept(new)
  seq = (seq or redis.call('INCRBY', $job_seq, coming_n) - coming_n) + 1
  local id, queue, tenant, priority, place = new.id, new.queue, new.tenant, new.priority, s(seq)
  local run_at, padded = at_now, padded_now
  if new.when ~= 'now' then
    run_at = s(new.when == 'in' and after_now(new.ms) or math.max(new.ms, now))
    padded = ZEROS:sub(#run_at + 2) .. run_at
  end
  local meta = '[1,0,0,0,"",0,' .. run_at .. ',' .. at_now .. ',0,"' .. queue .. '","' .. tenant .. '",' .. priority .. ','
    .. place .. new.rest .. ']'
  cache[id], statuses[id] = meta, 'pending'
  local n = set_n
  sets[n + 1], sets[n + 2] = JOB .. id .. ':status', 'pending'
  sets[n + 3], sets[n + 4] = JOB .. id .. ':submitted_at', at_now
  sets[n + 5], sets[n + 6] = JOB .. id .. ':meta', meta
  set_n = n + 6
  if new.payload ~= '' then
    sets[n + 7], sets[n + 8] = JOB .. id .. ':payload', new.payload
    set_n = n + 8
  end
  if new.with then
    redis.call('SET', $job_key..new.with, id)
    known_keys[new.with] = id
  end
  local first = priority == '0' and NORMAL or string.format('%03d', 127 - priority)
  local member = first .. padded .. ZEROS:sub(#place + 1) .. place .. id
  if run_at == at_now and queue == lane_queue and tenant == lane_tenant then
    -- The lane of the one before, as nearly always.
    n = #lane_adds
    lane_adds[n + 1], lane_adds[n + 2] = 0, member
  else
    put_waiting({queue = queue, tenant = tenant, runAt = run_at}, member)
    if run_at == at_now then lane_queue, lane_tenant, lane_adds = queue, tenant, adds[$lane..queue .. ':' .. tenant] end
  end
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
