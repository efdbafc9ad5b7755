-- Steps: is it a repeat, may it be written, then write it. Judging changes nothing, and writing cannot fail.
local CONTROL = {'pause', 'cancel', 'skip', 'start', 'revoked'}
local READ = {'status', 'owner', 'fence', 'tenantId', 'planId', 'position', 'createdAt', 'version', 'seq', 'checkpoint',
  'readyAt', 'pause', 'cancel', 'skip', 'start', 'revoked', 'control', 'op'}
-- What a boundary reads and writes stands first in a new row, where it is found soonest.
local OFTEN = {'version', '', 'op', '', 'control', '', 'updatedAt', '', 'completed', '', 'stage', '', 'done', '', 'seq', '',
  'checkpoint', ''}
local RUNS = {RUNNING = true, ROLLING_BACK = true}
local FINAL = {COMPLETED = true, FAILED = true, CANCELLED = true}

local function load_task(id)
  local r = redis.call('HMGET', $task..id, unpack(READ))
  if not r[1] then return nil end
  local row = {id = id}
  for i = 1, #READ do row[READ[i]] = r[i] or '' end
  return row
end

local function load_plan(id)
  local r = redis.call('HMGET', $plan..id, 'status', 'version', 'seq', 'endedAt')
  if not r[1] then return nil end
  return {id = id, status = r[1], version = r[2], seq = r[3], endedAt = r[4] or ''}
end

-- Pairs of names and values.
local function pairs_of()
  local list = {}
  for i = 1, 2 * tonumber(nx()) do list[i] = nx() end
  return list
end

local function read_plan()
  if nx() == '0' then return nil end
  local put = {id = nx(), status = nx(), from = nx(), version = nx(), createdAt = nx(), endedAt = nx(), taskIds = nx()}
  put.spec = nx() == '1' and nx() or nil
  put.fields = pairs_of()
  return put
end

local function read_task()
  local put = {id = nx(), tenantId = nx(), planId = nx(), position = nx(), createdAt = nx(), status = nx(), from = nx(),
    version = nx(), fence = nx(), owner = nx(), readyAt = nx()}
  put.spec = nx() == '1' and nx() or nil
  put.fields = pairs_of()
  return put
end

local function read_step()
  local step = {op = nx(), digest = nx(), by = nx(), instance = nx(), fence = nx()}
  step.plan = read_plan()
  step.tasks = {}
  for i = 1, tonumber(nx()) do step.tasks[i] = read_task() end
  step.ckpt = nx()
  if step.ckpt == 'put' then
    step.body, step.ckpt_version, step.ckpt_fence, step.ckpt_instance = nx(), nx(), nx(), nx()
  end
  if nx() == '1' then
    step.ask = {task = nx(), from = nx(), request = nx(), value = nx()}
  end
  step.events = {}
  for i = 1, tonumber(nx()) do step.events[i] = {task = nx(), plan = nx(), name = nx(), tail = nx()} end
  step.answer = nx()
  return step
end

-- The step's one task, or else the one asked.
local function subject(step)
  if #step.tasks == 1 then return step.tasks[1].id end
  return step.ask and step.ask.task
end

-- The last is the version of the checkpoint that a task has now, said of what is written and not of a repeat.
local function answer(version, seq, row, when, kept, checkpoint)
  local out = {'ok', version, seq, when, kept}
  for i = 1, #CONTROL do out[5 + i] = row and row[CONTROL[i]] or '' end
  out[6 + #CONTROL] = checkpoint or ''
  return out
end

-- What is read once for a step.
local READS_TASK = {__index = function(t, id) local row = load_task(id) or false; t[id] = row; return row end}
local READS_PLAN = {__index = function(t, id) local row = load_plan(id) or false; t[id] = row; return row end}
local function world()
  return {tasks = setmetatable({}, READS_TASK), plans = setmetatable({}, READS_PLAN)}
end

local function repeated(step, w)
  if step.by == 'P' then
    local kept = redis.call('HMGET', $op..step.op, 'digest', 'version', 'seq', 'at', 'answer')
    if not kept[1] then return nil end
    if kept[1] ~= step.digest then return {'OpReused'} end
    local task = subject(step)
    return answer(kept[2], kept[3], task and w.tasks[task], kept[4], kept[5])
  end
  local row = w.tasks[step.tasks[1].id]
  local op, digest, when = (row and row.op or ''):match('^(%S+) (%S+) (%d+)')
  if op ~= step.op then return nil end
  if digest ~= step.digest then return {'OpReused'} end
  return answer(row.version, row.seq, row, when, '')
end

local function judge_plan(put, w)
  local row = w.plans[put.id]
  if put.version == '0' then
    if row then return {'Exists', 'plan ' .. put.id} end
    if not put.spec then return {'Invalid', 'a new plan needs its spec'} end
    return nil
  end
  if not row then return {'NotFound', 'plan ' .. put.id} end
  if put.version ~= row.version then return {'Version', put.version, row.version} end
  if not put.from:find(',' .. row.status .. ',', 1, true) then return {'State', row.status, 'plan', 0} end
end

local function judge_writer(step, put, row)
  local till = row.owner == '' and 0 or lease(row.owner)
  if step.by == 'P' then
    if put.version ~= row.version then return {'Version', put.version, row.version} end
    if till > now then return {'Owned', row.owner, till} end
    return nil
  end
  if step.by == 'O' then
    row.tenant_fence = redis.call('HGET', $tenant..row.tenantId, 'fence') or '0'
    if less(step.fence, row.tenant_fence) then return {'Stale', step.fence, row.tenant_fence} end
  end
  if row.owner ~= step.instance then return {'Owned', row.owner, till} end
end

local function judge_task(step, put, nth, w)
  local row = w.tasks[put.id]
  local comes = step.plan and step.plan.id == put.planId
  if put.from == '' then
    if row then return {'Exists', 'task ' .. put.id} end
    if not comes and not w.plans[put.planId] then return {'NotFound', 'plan ' .. put.planId} end
    if not put.spec then return {'Invalid', 'a new task needs its spec'} end
    return nil
  end
  if not row then return {'NotFound', 'task ' .. put.id} end
  local no = judge_writer(step, put, row)
  if no then return no end
  if not put.from:find(',' .. row.status .. ',', 1, true) then return {'State', row.status, 'task', nth} end
  if step.by == 'P' and not comes and not w.plans[put.planId] then return {'NotFound', 'plan ' .. put.planId} end
  if put.planId ~= row.planId or put.tenantId ~= row.tenantId or put.position ~= row.position
    or put.createdAt ~= row.createdAt then
    return {'Invalid', 'plan, tenant, position and creation of ' .. put.id .. ' are fixed'}
  end
end

local function judge_ask(step, w)
  local ask = step.ask
  if not ask then return nil end
  local row = w.tasks[ask.task]
  if not row then return {'NotFound', 'task ' .. ask.task} end
  if not ask.from:find(',' .. row.status .. ',', 1, true) then return {'State', row.status, 'ask', 0} end
  if ask.request ~= 'start' then return nil end
  if is_live(row.owner) then return {'Owned', row.owner, lease(row.owner)} end
  if not w.plans[row.planId] then return {'NotFound', 'plan ' .. row.planId} end
end

local function judge_checkpoint(step, w)
  if step.ckpt ~= 'put' then return nil end
  local task = subject(step)
  local row = task and w.tasks[task]
  local stored = row and row.checkpoint or '0'
  if tonumber(step.ckpt_version) ~= tonumber(stored) + 1 then return {'Checkpoint', step.ckpt_version, stored} end
  if step.by == 'O' and step.fence ~= step.ckpt_fence then
    return {'Invalid', 'the checkpoint carries another fence'}
  end
end

local function judge(step, w)
  local no = step.plan and judge_plan(step.plan, w)
  if no then return no end
  local seen = {}
  for i, put in ipairs(step.tasks) do
    if seen[put.id] then return {'Invalid', 'task ' .. put.id .. ' is in the step twice'} end
    seen[put.id] = true
    no = judge_task(step, put, i - 1, w)
    if no then return no end
  end
  no = judge_ask(step, w) or judge_checkpoint(step, w)
  if no then return no end
  for _, event in ipairs(step.events) do
    local there
    if event.task ~= '' then
      there = seen[event.task] or w.tasks[event.task]
    else
      there = (step.plan and step.plan.id == event.plan) or w.plans[event.plan]
    end
    if not there then return {'NotFound', 'what ' .. event.name .. ' is about'} end
  end
end

-- What is to be written of a row at the end: names and values.
local function touch(list, row)
  if not row.set then
    row.set = {}
    list[#list + 1] = row
    row.was = {status = row.status, owner = row.owner, readyAt = row.readyAt, start = row.start, position = row.position,
      planId = row.planId, createdAt = row.createdAt, id = row.id, control = row.control}
  end
  return row
end

local function set(row, name, value)
  row[name] = value
  local list = row.set
  list[#list + 1] = name
  list[#list + 1] = value
  if name == 'pause' then
    list[#list + 1] = 'pauseRequested'
    list[#list + 1] = value ~= '' and 'true' or 'false'
  end
end

local function put_plan(put, w, plans)
  local row = w.plans[put.id]
  if not row then
    row = {id = put.id, version = '0', seq = '0', status = '', endedAt = '', new = true}
    w.plans[put.id] = row
  end
  touch(plans, row)
  row.fields, row.to, row.ends, row.createdAt = put.fields, put.status, put.endedAt, put.createdAt
  if row.new then
    set(row, 'taskIds', put.taskIds)
    set(row, 'seq', '0')
  end
  if put.spec then redis.call('SET', $plan_spec..put.id, put.spec) end
end

local function new_task(put, step, w)
  local row = {id = put.id, new = true, status = put.status, version = '0', seq = '0', checkpoint = '0', start = '',
    owner = put.owner, readyAt = put.readyAt, fence = put.fence, tenantId = put.tenantId, planId = put.planId,
    position = put.position, createdAt = put.createdAt, pause = '', cancel = '', skip = '', revoked = '', control = ''}
  w.tasks[put.id] = row
  redis.call('HSETNX', $tenant..put.tenantId, 'fence', '0')
  if (redis.call('HGET', $tenant..put.tenantId, 'started') or '') == '' then
    redis.call('SET', $tenant_task..put.tenantId, put.id)
  end
  if not (step.plan and step.plan.id == put.planId and w.plans[put.planId].new) then
    local ids = redis.call('HGET', $plan..put.planId, 'taskIds') or '[]'
    ids = ids:sub(1, -2) .. (ids == '[]' and '' or ',') .. '"' .. put.id .. '"]'
    redis.call('HSET', $plan..put.planId, 'taskIds', ids)
  end
  return row
end

local function keep_control(row, put, begun)
  if RUNS[put.status] then
    if begun then
      if row.start ~= '' then set(row, 'start', '') end
      if row.revoked ~= '' then set(row, 'revoked', '') end
    end
  elseif row.status ~= put.status then
    for i = 1, #CONTROL do
      if row[CONTROL[i]] ~= '' then set(row, CONTROL[i], '') end
    end
  end
end

local function put_task(put, step, w, tasks)
  local row = w.tasks[put.id]
  local begun = false
  if row then
    touch(tasks, row)
    begun = less(row.fence, put.fence)
    keep_control(row, put, begun)
    row.status, row.owner, row.readyAt, row.fence = put.status, put.owner, put.readyAt, put.fence
  else
    row = touch(tasks, new_task(put, step, w))
    for i = 1, #CONTROL do set(row, CONTROL[i], '') end
    set(row, 'control', '')
    set(row, 'checkpoint', '0')
    set(row, 'seq', '0')
  end
  row.fields = put.fields
  if put.spec then redis.call('SET', $task_spec..put.id, put.spec) end
  if step.by == 'O' then
    local stored = row.tenant_fence or redis.call('HGET', $tenant..row.tenantId, 'fence') or '0'
    local highest = less(stored, step.fence) and step.fence or stored
    if begun then
      begin(row.tenantId, put.id, highest, redis.call('HGET', $tenant..row.tenantId, 'started'))
    elseif highest ~= stored then
      redis.call('HSET', $tenant..row.tenantId, 'fence', highest)
    end
  end
  if step.by ~= 'P' then
    set(row, 'op', step.op .. ' ' .. step.digest .. ' ' .. s(now))
  end
end

local function put_checkpoint(step, w, tasks)
  local task = subject(step)
  if not task or step.ckpt == 'keep' then return end
  local row = touch(tasks, w.tasks[task])
  if step.ckpt == 'put' then
    redis.call('SET', $ckpt..task, step.body)
    redis.call('HSET', $ckpt_meta..task, 'version', step.ckpt_version, 'instanceId', step.ckpt_instance, 'fence',
      step.ckpt_fence)
    set(row, 'checkpoint', step.ckpt_version)
  else
    redis.call('DEL', $ckpt..task, $ckpt_meta..task)
    set(row, 'checkpoint', '0')
  end
end

local function put_ask(step, w, tasks)
  local ask = step.ask
  if not ask then return end
  local row = touch(tasks, w.tasks[ask.task])
  if ask.request == 'start' then
    for i = 1, #CONTROL do
      if row[CONTROL[i]] ~= '' then set(row, CONTROL[i], '') end
    end
  end
  set(row, ask.request == 'unpause' and 'pause' or ask.request, ask.value)
end

local function append(row, tail)
  row.seq = s(tonumber(row.seq) + 1)
  row.history = row.history or {}
  row.history[#row.history + 1] = '{"seq":' .. row.seq .. tail
end

local function write_history(key, row)
  local all = row.history
  if not all then return end
  set(row, 'seq', row.seq)
  local length
  for i = 1, #all, 1000 do length = redis.call('RPUSH', key, unpack(all, i, math.min(i + 999, #all))) end
  if length > 200 then redis.call('LTRIM', key, -200, -1) end
end

local function write_task(row)
  local asked = {}
  for i = 1, #CONTROL do
    if row[CONTROL[i]] ~= '' then asked[#asked + 1] = CONTROL[i] end
  end
  asked = table.concat(asked, ' ')
  if row.control ~= asked then set(row, 'control', asked) end
  write_history($task_history..row.id, row)
  set(row, 'version', s(tonumber(row.version) + 1))
  local all = row.fields or {}
  for i = 1, #row.set do all[#all + 1] = row.set[i] end
  if row.new then redis.call('HSET', $task..row.id, unpack(OFTEN)) end
  redis.call('HSET', $task..row.id, unpack(all))
  if not row.new then
    break_seal(row.was.owner)
    return reindex(row.was, row)
  end
  local member = place(row)
  entry(sorted, $tasks..'all', member, 0)
  entry(sorted, $tasks..row.status, member, 0)
  entry(sorted, $plan_tasks..row.planId, member, 0)
  entry(sorted, $tenant_tasks..row.tenantId, member, 0)
  count(row.planId, row.status, 1)
  put_owner(row, true)
  put_waits(row, class_of(row), true)
  return true
end

local function write_plan(row)
  write_history($plan_history..row.id, row)
  set(row, 'version', s(tonumber(row.version) + 1))
  local all = row.fields or {}
  for i = 1, #row.set do all[#all + 1] = row.set[i] end
  redis.call('HSET', $plan..row.id, unpack(all))
  if not row.to then return end
  if row.to ~= row.status then
    local created = row.new and row.createdAt or redis.call('HGET', $plan..row.id, 'createdAt')
    local member = string.format('%015.0f %s', MAX - created, row.id)
    if row.new then redis.call('ZADD', $plans..'all', 0, member) else redis.call('ZREM', $plans..row.status, member) end
    redis.call('ZADD', $plans..row.to, 0, member)
  end
  if FINAL[row.to] and row.ends ~= '' then
    redis.call('ZADD', $ended_plans, row.ends, row.id)
  elseif row.endedAt ~= '' then
    redis.call('ZREM', $ended_plans, row.id)
  end
end

-- Version and last event of what the step is about.
local function about(step, w)
  local row
  local task = subject(step)
  if task then
    row = w.tasks[task]
  elseif step.plan then
    row = w.plans[step.plan.id]
  elseif step.events[1] and #step.tasks == 0 then
    local event = step.events[1]
    row = event.task ~= '' and w.tasks[event.task] or w.plans[event.plan]
  end
  if row then return row.version, row.seq end
  return '0', '0'
end

-- Plans of which more or less may be handed out than before, and those of which a task was ended or put aside by its owner;
-- judged once, when all steps are taken.
local opens, frees = {}, {}
clears[#clears + 1] = function() opens, frees = {}, {} end

-- What a person writes is for others to see, except that a plan is over.
local function is_news(step)
  if step.by ~= 'P' then return false end
  return not step.plan or #step.tasks > 0 or step.ask or not FINAL[step.plan.status]
end

local function write(step, w)
  local plans, tasks, wakes = {}, {}, is_news(step)
  if step.plan then put_plan(step.plan, w, plans) end
  for _, put in ipairs(step.tasks) do put_task(put, step, w, tasks) end
  put_checkpoint(step, w, tasks)
  put_ask(step, w, tasks)
  for _, event in ipairs(step.events) do
    if event.task ~= '' then
      append(touch(tasks, w.tasks[event.task]), event.tail)
    else
      append(touch(plans, w.plans[event.plan]), event.tail)
    end
  end
  for _, row in ipairs(plans) do
    write_plan(row)
    opens[row.id] = row.to and true or opens[row.id]
  end
  for _, row in ipairs(tasks) do
    if write_task(row) then opens[row.planId] = true end
    -- Others wait for what is given back, and for a slot if something waits for one; what its owner does with it moves nobody.
    if row.owner ~= row.was.owner then
      if step.by == 'O' then frees[row.planId] = true else wakes = true end
    end
  end
  local version, seq = about(step, w)
  if step.by == 'P' then
    redis.call('HSET', $op..step.op, 'digest', step.digest, 'version', version, 'seq', seq, 'at', s(now), 'answer',
      step.answer)
    redis.call('ZADD', $ops, now, step.op)
  end
  local task = subject(step)
  local row = task and w.tasks[task]
  return answer(version, seq, row, s(now), step.answer, row and row.checkpoint), wakes
end
