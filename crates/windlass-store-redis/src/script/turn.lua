-- Complete, heartbeat and claim, for each worker in one step: what was said first, of all of them, then the claims.
local turns, ids, wanted_all = {}, {}, 0
for t = 1, tonumber(nx()) do
  local turn = {worker = nx(), lease = tonumber(nx()), settle = {}, beat = {}, want = {}}
  for i = 1, tonumber(nx()) do
    local said = {id = nx(), fence = nx(), kind = nx()}
    if said.kind == 'completed' then
      said.text = nx()
    elseif said.kind == 'failed' then
      said.text, said.cancelled, said.retry, said.spread = nx(), nx(), nx() == '1', tonumber(nx())
    end
    turn.settle[i] = said
    ids[#ids + 1] = said.id
  end
  for i = 1, tonumber(nx()) do
    turn.beat[i] = {id = nx(), fence = nx()}
    ids[#ids + 1] = turn.beat[i].id
  end
  for i = 1, tonumber(nx()) do
    local want = {queue = nx(), n = tonumber(nx())}
    turn.want[i] = want
    wanted_all = wanted_all + want.n
  end
  turns[t] = turn
end
preload(ids)

local function holds(job, fence)
  if job.fence ~= fence then return {'Stale', fence, job.fence} end
  if job.worker == '' then return {'State', status_of(job)} end
end

-- A job that runs under this fence and is done, without taking it apart. Whatever else there is to say is said below.
local RUNS = '^%[(%d+),(%d+),%d+,(%d+),"[^"]+",%d+(),%d+,%d+,(%d+),"([^"]*)","([^"]*)"'
local function complete(said)
  local id = said.id
  local text = cache[id]
  if type(text) ~= 'string' or text:find(',{"cancel":', 1, true) then return false end
  local version, attempt, fence, rest, started, queue, tenant = text:match(RUNS)
  if not version or fence ~= said.fence then return false end
  local ends, newest = end_of(started)
  local meta = '[' .. version + 1 .. ',' .. attempt .. ',0,' .. fence .. ',"",0' .. text:sub(rest)
  cache[id], statuses[id] = meta, 'completed'
  local key, n = $job..id, #sets
  sets[n + 1], sets[n + 2] = key .. ':status', 'completed'
  sets[n + 3], sets[n + 4] = key .. ':result', said.text
  sets[n + 5], sets[n + 6] = key .. ':completed_at', ends
  sets[n + 7], sets[n + 8] = key .. ':meta', meta
  if tonumber(attempt) > 1 then dels[#dels + 1] = key .. ':error' end
  zrem($running..queue, id .. tenant)
  zadd($ended_jobs..'completed', 0, newest .. id .. queue .. ':' .. tenant)
  ended_ids[#ended_ids + 1] = id
  if tenant ~= '' then add_count($of_tenant..tenant, 'running', -1) end
  if has_rules then
    wakes = true
    if tenant ~= '' then unpark(tenant) end
  end
  return true
end

local function settle(said)
  if said.kind == 'completed' and complete(said) then return 'completed' end
  local job = job_of(said.id)
  if not job then return {'NotFound'} end
  if job.worker == '' and job.fence == said.fence and said.fence ~= '0' then return status_of(job) end
  local no = holds(job, said.fence)
  if no then return no end
  if said.kind == 'completed' then
    write(job, 'result', said.text)
    if tonumber(job.attempt) > 1 then forget_part(job, 'error') end
    leave_running(job)
    ended(job, 'completed')
  elseif said.kind == 'failed' then
    if wants_end(job) then
      failed(job, said.cancelled)
    else
      again_or_failed(job, said.text, said.retry, said.spread)
    end
  elseif said.kind == 'released' then
    if wants_end(job) then
      failed(job, windlass_error('CANCELLED', 'its end was asked for while it ran'))
    else
      job.attempt = math.max(job.attempt - 1, 0)
      waits_again(job, now)
    end
  else
    return {'Invalid'}
  end
  return job.status
end

local function beat(said, lease)
  local job = job_of(said.id)
  if not job then return {'NotFound'} end
  local no = holds(job, said.fence)
  if no then return no end
  local till, timeout = deadline(job)
  if till and till <= now then return {'TimedOut', timeout} end
  job.lease = s(after_now(lease))
  zadd($running..job.queue, job.lease, job.id .. job.tenant)
  write_meta(job)
  return {'ok', job.lease, wants_end(job) and 1 or 0}
end

-- Fences, one after the other: as many as jobs are wanted, drawn when the first is needed.
local fence_next
local function next_fence()
  if not fence_next then
    local last = tonumber(redis.call('SET', $fence, s(us + wanted_all), 'GET') or '0')
    fence_next = us
    if last >= us then
      fence_next = last + 1
      redis.call('SET', $fence, s(last + 1 + wanted_all))
    end
  end
  fence_next = fence_next + 1
  return s(fence_next - 1)
end

-- The job is this worker's.
local at_now = s(now)
local function deliver(job, turn, out)
  job.worker, job.fence, job.lease = turn.worker, next_fence(), turn.till
  job.deliveries = job.deliveries + 1
  job.started, job.status = at_now, 'running'
  if tonumber(job.submitted) > now then job.started = job.submitted end
  write(job, 'status', 'running')
  write(job, 'started_at', job.started)
  write_meta(job)
  zadd($running..job.queue, job.lease, job.id .. job.tenant)
  out[#out + 1] = job
end

-- The same for a job that waits and is not taken apart, as nearly all are.
local WAITS = '^%[(%d+),(%d+),0,%d+,"",0(,%d+,(%d+),)%d+()'
local function deliver_waiting(id, queue, tenant, turn, out)
  local text = cache[id]
  local version, attempt, times, submitted, rest
  if type(text) == 'string' then version, attempt, times, submitted, rest = text:match(WAITS) end
  if not version then
    local job = job_of(id)
    if not job then return false end
    job.attempt = job.attempt + 1
    deliver(job, turn, out)
    return true
  end
  local begun = tonumber(submitted) > now and submitted or now_text
  attempt = attempt + 1
  local meta = '[' .. version + 1 .. ',' .. attempt .. ',1,' .. next_fence() .. ',"' .. turn.worker .. '",' .. turn.till
    .. times .. begun .. text:sub(rest)
  cache[id] = meta
  local key, n = $job..id, #sets
  sets[n + 1], sets[n + 2] = key .. ':status', 'running'
  sets[n + 3], sets[n + 4] = key .. ':started_at', begun
  sets[n + 5], sets[n + 6] = key .. ':meta', meta
  zadd($running..queue, turn.till, id .. tenant)
  out[#out + 1] = {id = id, meta = meta, attempt = attempt}
  return true
end

-- What waited for its time, and whose time has come.
local function promote(queue)
  for _ = 1, 4 do
    local due = redis.call('ZRANGEBYSCORE', $later..queue, '-inf', s(now), 'LIMIT', 0, 1000)
    for _, entry in ipairs(due) do
      local member, tenant = entry:sub(1, 70), entry:sub(71)
      zrem($later..queue, entry)
      zrem($waits..queue .. ':' .. tenant, member)
      zadd($lane..queue .. ':' .. tenant, 0, member)
      join_ring(queue, tenant)
    end
    flush()
    if #due < 1000 then return end
  end
end

-- How many of a tenant's may begin.
local function slots_of(tenant)
  local of = rule_of_tenant(tenant)
  if of.held then return 0 end
  if not of.running then return 1000000 end
  return of.running - count($of_tenant..tenant, 'running')
end

-- The tenants whose turn it is, each with how many it could be given. Who has nothing, or is stopped, leaves the ring.
local function ready_tenants(queue, room)
  local names = redis.call('ZRANGE', $ring..queue, 0, room - 1)
  local list, moved = {}, false
  for _, tenant in ipairs(names) do
    local slots = slots_of(tenant)
    local length = redis.call('ZCARD', $lane..queue .. ':' .. tenant)
    if length == 0 or slots <= 0 then
      moved = true
      redis.call('ZREM', $ring..queue, tenant)
      if length > 0 then redis.call('ZADD', $parked, 0, tenant .. ' ' .. queue) end
    else
      list[#list + 1] = {name = tenant, length = length, most = math.min(length, slots), n = 0}
    end
  end
  return list, moved, #names
end

-- Shares what there is room for among tenants, one each, round after round.
local function share(list, room, rounds)
  local given = true
  while room > 0 and given and rounds > 0 do
    given = false
    for _, tenant in ipairs(list) do
      if room > 0 and tenant.n < tenant.most then
        tenant.n = tenant.n + 1
        room = room - 1
        given = true
      end
    end
    rounds = rounds - 1
  end
end

-- What a claim reads of jobs that wait, in one go: record and payload.
local payloads = {}
local function read_waiting(ids)
  for from = 1, #ids, 500 do
    local keys = {}
    for i = from, math.min(from + 499, #ids) do
      local key, n = $job..ids[i], #keys
      keys[n + 1], keys[n + 2] = key .. ':meta', key .. ':payload'
    end
    local got = redis.call('MGET', unpack(keys))
    for i = from, math.min(from + 499, #ids) do
      local id, at = ids[i], 2 * (i - from)
      if cache[id] == nil then cache[id] = got[at + 1] end
      payloads[id] = got[at + 2]
    end
  end
end

-- Takes from its lane what a tenant is given. What a clock ahead of this one brought there too early goes back.
local function pop(queue, tenant, all)
  local lane = $lane..queue .. ':' .. tenant.name
  local got = redis.call('ZPOPMIN', lane, tenant.n)
  tenant.jobs = {}
  for i = 1, #got, 2 do
    local member = got[i]
    local run_at = tonumber(member:sub(4, 18))
    if run_at > now then
      zadd($later..queue, run_at, member .. tenant.name)
      zadd($waits..queue .. ':' .. tenant.name, 0, member)
    else
      local id = member:sub(35)
      tenant.jobs[#tenant.jobs + 1] = id
      all[#all + 1] = id
    end
  end
end

local function claim_waiting(queue, room, turn, out)
  local list, moved, looked = ready_tenants(queue, room)
  local whole = looked < room
  local alone = whole and looked == 1
  share(list, room, whole and room or 1)
  local all, most = {}, 0
  for _, tenant in ipairs(list) do
    if tenant.n > 0 then
      pop(queue, tenant, all)
      most = math.max(most, #tenant.jobs)
      moved = true
      if #tenant.jobs > 0 then count_started(queue, tenant.name, #tenant.jobs) end
    end
  end
  read_waiting(all)
  for round = 1, most do
    for _, tenant in ipairs(list) do
      local id = tenant.jobs and tenant.jobs[round]
      if id and deliver_waiting(id, queue, tenant.name, turn, out) then
        tenant.turn = next_turn()
      end
    end
  end
  for _, tenant in ipairs(list) do
    if tenant.n > 0 and tenant.n >= tenant.length then
      redis.call('ZREM', $ring..queue, tenant.name)
    elseif tenant.turn and not alone then
      redis.call('ZADD', $ring..queue, tenant.turn, tenant.name)
    end
  end
  flush()
  return #all, moved
end

local function claim(queue, n, turn, out)
  -- That somebody asks is written when it would be news to those who look.
  local till = after_now(turn.lease)
  local known = tonumber(redis.call('HGET', $queue..queue, 'workerUntil') or '0')
  if till - turn.lease / 8 > known then
    redis.call('HSET', $queue..queue, 'workerUntil', s(till))
    redis.call('ZADD', $queues, 0, queue)
  end
  local of = rule('queue:' .. queue)
  if n == 0 or of.held then return end
  local before = #out
  judge_queue(queue, 1000000, function(job)
    if #out - before >= n then return 'enough' end
    if rule_of_tenant(job.tenant).held then return 'stays' end
    deliver(job, turn, out)
  end)
  flush()
  promote(queue)
  while true do
    local room = n - (#out - before)
    if of.running then room = math.min(room, of.running - redis.call('ZCARD', $running..queue)) end
    if room <= 0 then return end
    local got, moved = claim_waiting(queue, room, turn, out)
    if got == 0 and not moved then return end
  end
end

local function first_after(key)
  return redis.call('ZRANGEBYSCORE', key, '(' .. s(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end

local function next_of(turn)
  local first
  for _, want in ipairs(turn.want) do
    for _, key in ipairs({$later..want.queue, $running..want.queue}) do
      local at = tonumber(first_after(key) or 'x')
      if at and (not first or at < first) then first = at end
    end
  end
  return first and s(first) or ''
end

-- As workers get them: the job with its payload, and what went wrong in the attempt before.
local function shown(jobs)
  local out = {}
  for i, job in ipairs(jobs) do
    local id = job.id
    local why, payload = false, payloads[id]
    if payload == nil then payload = redis.call('GET', $job..id .. ':payload') end
    if tonumber(job.attempt) > 1 then why = job.error or redis.call('GET', $job..id .. ':error') end
    out[i] = {id, job.meta, payload, why}
  end
  return out
end

local out = {}
for t, turn in ipairs(turns) do
  local settled, beaten = {}, {}
  for i, said in ipairs(turn.settle) do settled[i] = settle(said) end
  for i, said in ipairs(turn.beat) do beaten[i] = beat(said, turn.lease) end
  out[t] = {settled, beaten, {}, '', s(now)}
end
flush()
for t, turn in ipairs(turns) do
  local jobs, wanted = {}, 0
  turn.till = s(after_now(turn.lease))
  for _, want in ipairs(turn.want) do
    wanted = wanted + want.n
    claim(want.queue, want.n, turn, jobs)
  end
  out[t][3] = shown(jobs)
  if #jobs < wanted then out[t][4] = next_of(turn) end
end
return {out, finish()}
