-- Submissions, as if one after another. What is asked for is read once.
local known_keys, fresh, some_are_there
-- How many come, and where the last of them stands: places in the order of submission are drawn for all of them at once;
-- those that are not needed are left out.
local coming_n, seq
clears[#clears + 1] = function()
  known_keys, fresh, some_are_there, coming_n, seq = {}, {}, false, 0, nil
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
local function full(run, more)
  local of = rule('queue:' .. run.queue)
  local q = 'queue ' .. run.queue
  if of.waiting and count($queue..run.queue, 'waiting') + (more[q] or 0) >= of.waiting then
    return {'Full', 'queue', run.queue, of.waiting}
  end
  more[q] = (more[q] or 0) + 1
  if run.tenant == '' then return nil end
  of = rule_of_tenant(run.tenant)
  if of.waiting and count($of_tenant..run.tenant, 'waiting') + (more[run.tenant] or 0) >= of.waiting then
    return {'Full', 'tenant', run.tenant, of.waiting}
  end
  more[run.tenant] = (more[run.tenant] or 0) + 1
end

-- The end of a job's record, which says what was submitted: of one that came just now, or was there before.
local function rest_of(id)
  if fresh[id] then return fresh[id] end
  local job = L.job_of(id)
  return job and job.rest
end

local function digest_of(rest)
  return rest:match('^,%d+,%d+,%d+,%d+,(%d+)')
end

-- Whether one of a run comes: who is there in its place, or why its group is refused, if either is so.
local function judge_one(run, p, more, keys)
  local id, rest = args[p], args[p + 1]
  local key = run.width == 4 and run.tenant .. ':' .. run.queue .. ':' .. args[p + 3]
  local there = fresh[id] and id or some_are_there and L.job_of(id) and id or key and holder_of(key)
  local known = there and rest_of(there)
  if known then
    if digest_of(known) ~= digest_of(rest) then return nil, {'OpReused'} end
    return there
  end
  local no = has_rules and full(run, more)
  if no then return nil, no end
  fresh[id] = rest
  if key then
    known_keys[key] = id
    keys[#keys + 1] = key
  end
end

-- Why a group is refused, if it is; otherwise who is there already, by the place among all that come. Nothing is written.
local function judge(runs)
  local old, more, keys = {}, {}, {}
  for r, run in ipairs(runs) do
    for i = 1, run.n do
      local there, no = judge_one(run, run.first + (i - 1) * run.width, more, keys)
      if no then
        -- None of them comes.
        for back = 1, r do
          local of = runs[back]
          for j = 1, back < r and of.n or i - 1 do
            if not old[of.before + j] then fresh[args[of.first + (j - 1) * of.width]] = nil end
          end
        end
        for _, key in ipairs(keys) do known_keys[key] = nil end
        return no
      end
      if there then old[run.before + i] = there end
    end
  end
  return nil, old
end

local at_now, padded_now
begins[#begins + 1] = function()
  at_now = s(now)
  padded_now = ZEROS:sub(#at_now + 2) .. at_now
end

-- Takes in those of a run that are new, and counts them.
local function accept(run, metas, old)
  local queue, tenant, priority, when = run.queue, run.tenant, run.priority, run.when
  local run_at, padded = at_now, padded_now
  if when ~= 'now' then
    run_at = s(when == 'in' and after_now(run.ms) or math.max(run.ms, now))
    padded = ZEROS:sub(#run_at + 2) .. run_at
  end
  local head = '[1,0,0,0,"",0,' .. run_at .. ',' .. at_now .. ',0,"' .. queue .. '","' .. tenant .. '",' .. priority .. ','
  local first = (priority == '0' and NORMAL or string.format('%03d', 127 - priority)) .. padded
  local lane = run_at == at_now and list_of(adds, $lane..queue .. ':' .. tenant)
  local n, p, width = set_n, run.first - run.width, run.width
  local came, digits, zeros = 0, 0, ''
  for i = run.before + 1, run.before + run.n do
    p = p + width
    if not old[i] then
      local id, payload = args[p], args[p + 2]
      seq = (seq or redis.call('INCRBY', $job_seq, coming_n) - coming_n) + 1
      came = came + 1
      local place = next_s(seq)
      if #place ~= digits then
        digits = #place
        zeros = first .. ZEROS:sub(digits + 1)
      end
      sets[n + 1], sets[n + 2] = JOB .. id .. ':status', 'pending'
      sets[n + 3], sets[n + 4] = JOB .. id .. ':submitted_at', at_now
      sets[n + 5], sets[n + 6] = metas[i], head .. place .. args[p + 1] .. ']'
      n = n + 6
      if payload ~= '' then
        sets[n + 1], sets[n + 2] = JOB .. id .. ':payload', payload
        n = n + 2
      end
      if width == 4 then redis.call('SET', $job_key..tenant .. ':' .. queue .. ':' .. args[p + 3], id) end
      local member = zeros .. place .. id
      if lane then
        local to = #lane
        lane[to + 1], lane[to + 2] = 0, member
      else
        put_waiting({queue = queue, tenant = tenant, runAt = run_at}, member)
      end
    end
  end
  set_n = n
  if came == 0 then return end
  if lane then join_lane(queue, tenant) end
  wakes = true
  add_count($queue..queue, 'waiting', came)
  if tenant ~= '' then add_count($of_tenant..tenant, 'waiting', came) end
end
