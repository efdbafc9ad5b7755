-- What workers say and claim.
local wanted_all, fence_next, payloads, firsts
-- When the job before might begin and was submitted, as its record has it, and when it began.
local of_times, of_begun
clears[#clears + 1] = function()
  wanted_all, fence_next, payloads, firsts = 0, nil, {}, {}
  of_times, of_begun = nil, nil
end
clears[#clears]()

local function holds(job, fence)
  if job.fence ~= fence then return {'Stale', fence, job.fence} end
  if job.worker == '' then return {'State', L.status_of(job)} end
end

-- How many arguments more it takes to say how something ended.
local MORE_SAID = {completed = 1, failed = 4}

-- What is said of a job. What more there is to say stands behind the argument `p`.
local function settle(id, fence, kind, p)
  local job = L.job_of(id)
  if not job then return {'NotFound'} end
  if job.worker == '' and job.fence == fence and fence ~= '0' then return L.status_of(job) end
  local no = holds(job, fence)
  if no then return no end
  if kind == 'completed' then
    L.write(job, 'result', args[p + 1])
    if tonumber(job.attempt) > 1 then L.forget_part(job, 'error') end
    L.leave_running(job)
    L.ended(job, 'completed')
  elseif kind == 'failed' then
    if L.wants_end(job) then
      L.failed(job, args[p + 2])
    else
      L.again_or_failed(job, args[p + 1], args[p + 3] == '1', tonumber(args[p + 4]))
    end
  elseif kind == 'released' then
    if L.wants_end(job) then
      L.failed(job, L.windlass_error('CANCELLED', 'its end was asked for while it ran'))
    else
      job.attempt = math.max(job.attempt - 1, 0)
      L.waits_again(job, now)
    end
  else
    return {'Invalid'}
  end
  return job.status
end

-- Jobs of a queue that were handed out by the caller, each in its first attempt, and are done. Whose entry is there runs
-- under its fence, and nobody asked for its end: nothing of it is read, its record stays as it is, and the status says the
-- rest. If one is not there, all are looked at. Names those that are not done, by their number.
local function complete(done, number, not_done)
  local queue, first, n = done.queue, done.first, done.n
  local entries, gone = {}, 0
  for i = 1, n do entries[i] = args[first + 2 * i - 2] end
  if done.latest <= now then
    for i = 1, n, 4000 do
      gone = gone + redis.call('ZREM', $running..queue, unpack(entries, i, math.min(i + 3999, n)))
    end
  end
  if gone < n then
    local ids = {}
    for i = 1, n do ids[i] = entries[i]:sub(1, 36) end
    preload(ids)
    for i = 1, n do
      local said = settle(ids[i], entries[i]:match('%d+$'), 'completed', first + 2 * i - 2)
      if said ~= 'completed' then
        not_done[#not_done + 1] = number + i
        not_done[#not_done + 1] = said
      end
    end
    return
  end
  local come = list_of(adds, $ended_jobs..'completed')
  local to, ended, of_tenant, lane, since = #come, #ended_ids, nil, nil, 0
  local m = set_n
  for i = 1, n do
    local entry = entries[i]
    local id, tenant = entry:sub(1, 36), entry:match('^[^:]*', 37)
    if tenant ~= of_tenant then
      if of_tenant then L.count_left(of_tenant, i - since) end
      of_tenant, lane, since = tenant, queue .. ':' .. tenant, i
    end
    statuses[id] = 'completed'
    sets[m + 1], sets[m + 2] = JOB .. id .. ':status', 'completed'
    sets[m + 3], sets[m + 4] = JOB .. id .. ':result', args[first + 2 * i - 1]
    sets[m + 5], sets[m + 6] = JOB .. id .. ':completed_at', now_text
    m = m + 6
    come[to + 1], come[to + 2] = 0, now_newest .. id .. lane
    to = to + 2
    ended_ids[ended + i] = id
  end
  set_n = m
  L.count_left(of_tenant, n + 1 - since)
end

local function beat(said, lease)
  local job = L.job_of(said.id)
  if not job then return {'NotFound'} end
  local no = holds(job, said.fence)
  if no then return no end
  local till, timeout = L.deadline(job)
  if till and till <= now then return {'TimedOut', timeout} end
  job.lease = s(after_now(lease))
  zadd($running..job.queue, job.lease, L.entry_of(job))
  L.write_meta(job)
  return {'ok', job.lease, L.wants_end(job) and 1 or 0}
end

-- Fences, one after the other: as many as jobs are wanted, drawn when the first is needed.
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
  return next_s(fence_next - 1)
end

-- What a worker gets of a job, one after the other: id, record, payload, what went wrong in the attempt before.
local GIVEN = 4
local function give(out, id, meta, payload, why)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = id, meta, payload, why
end

local function given_in(out)
  return #out / GIVEN
end

-- The job is this worker's.
local function deliver(job, turn, out)
  local id = job.id
  -- It may have run under another fence.
  if job.worker ~= '' then zrem($running..job.queue, L.entry_of(job)) end
  job.worker, job.fence, job.lease = turn.worker, next_fence(), turn.till
  job.deliveries = job.deliveries + 1
  job.started, job.status = now_text, 'running'
  if tonumber(job.submitted) > now then job.started = job.submitted end
  L.write(job, 'status', 'running')
  L.write(job, 'started_at', job.started)
  L.write_meta(job)
  zadd($running..job.queue, job.lease, L.entry_of(job))
  local payload = payloads[id]
  if payload == nil then payload = redis.call('GET', JOB .. id .. ':payload') end
  local why = tonumber(job.attempt) > 1 and (job.error or redis.call('GET', JOB .. id .. ':error'))
  give(out, id, job.meta, payload, why)
end

-- One more, as text: nearly always a small number, and to write a number takes longer than to find it.
local MORE = {['0'] = '1', ['1'] = '2', ['2'] = '3', ['3'] = '4'}

-- The same for a job that waits and is not taken apart, as nearly all are.
local WAITS = '^%[(%d+),(%d+),0,%d+,"",0(,%d+,%d+,)%d+()'
local function deliver_waiting(id, tenant, turn, out, runs)
  local text = cache[id]
  local version, attempt, times, rest
  if type(text) == 'string' then version, attempt, times, rest = text:match(WAITS) end
  if not version then
    local job = L.job_of(id)
    if not job then return false end
    job.attempt = job.attempt + 1
    deliver(job, turn, out)
    return true
  end
  if times ~= of_times then
    local submitted = times:match('(%d+),$')
    of_times, of_begun = times, tonumber(submitted) > now and submitted or now_text
  end
  local begun = of_begun
  attempt = MORE[attempt] or attempt + 1
  local fence = next_fence()
  local meta = '[' .. (MORE[version] or version + 1) .. ',' .. attempt .. ',1,' .. fence .. turn.holds .. times
    .. begun .. text:sub(rest)
  cache[id], statuses[id] = meta, 'running'
  local n = set_n
  sets[n + 1], sets[n + 2] = JOB .. id .. ':status', 'running'
  sets[n + 3], sets[n + 4] = JOB .. id .. ':started_at', begun
  sets[n + 5], sets[n + 6] = JOB .. id .. ':meta', meta
  set_n = n + 6
  n = #runs
  runs[n + 1], runs[n + 2] = turn.till, id .. tenant .. ':' .. fence
  give(out, id, meta, payloads[id], attempt ~= '1' and redis.call('GET', JOB .. id .. ':error'))
  return true
end

-- Judges what ran out in a queue, and hands what may be delivered again to `again`, until that says that it is enough.
local function judge_queue(queue, look_max, again)
  local passed, looked = 0, 0
  while looked < look_max do
    local entries = redis.call('ZRANGEBYSCORE', $running..queue, '-inf', s(now), 'LIMIT', passed, 200)
    if #entries == 0 then return end
    for _, job in ipairs(L.running_jobs(queue, entries)) do
      if not L.expire(job) then
        local said = again(job)
        if said == 'enough' then return end
        if said == 'stays' then passed = passed + 1 end
      end
    end
    looked = looked + #entries
    flush()
    if #entries < 200 then return end
  end
end

-- When the first of a set comes, `false` if there is none: whoever looks whether one has come learns it, if none has.
local function has_come(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  first = first and tonumber(first) or false
  if first and first <= now then return true end
  firsts[key] = first
  return false
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
local function read_waiting(ids)
  for from = 1, #ids, 500 do
    local keys = {}
    for i = from, math.min(from + 499, #ids) do
      local id, n = ids[i], 2 * (i - from)
      keys[n + 1], keys[n + 2] = JOB .. id .. ':meta', JOB .. id .. ':payload'
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
      firsts[$later..queue] = nil
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
  local all, most, given = {}, 0, given_in(out)
  for _, tenant in ipairs(list) do
    given = given + tenant.n
    if tenant.n > 0 then
      pop(queue, tenant, all)
      most = math.max(most, #tenant.jobs)
      moved = true
      if #tenant.jobs > 0 then count_started(queue, tenant.name, #tenant.jobs) end
    end
  end
  read_waiting(all)
  local runs = list_of(adds, $running..queue)
  for round = 1, most do
    for _, tenant in ipairs(list) do
      local id = tenant.jobs and tenant.jobs[round]
      if id and deliver_waiting(id, tenant.name, turn, out, runs) then
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
  local running, till = $running..queue, tonumber(turn.till)
  local first = firsts[running]
  if first ~= nil and #all > 0 then firsts[running] = first and math.min(first, till) or till end
  -- Whether to look again: without rules all have been given what they have, as far as there was room.
  return moved and (has_rules or not whole or given_in(out) < given)
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
  local before = given_in(out)
  if has_come($running..queue) then
    judge_queue(queue, 1000000, function(job)
      if given_in(out) - before >= n then return 'enough' end
      if rule_of_tenant(job.tenant).held then return 'stays' end
      deliver(job, turn, out)
    end)
    flush()
  end
  if has_come($later..queue) then promote(queue) end
  while true do
    local room = n - (given_in(out) - before)
    if of.running then room = math.min(room, of.running - redis.call('ZCARD', $running..queue)) end
    if room <= 0 then return end
    if not claim_waiting(queue, room, turn, out) then return end
  end
end

local function first_after(key)
  if firsts[key] ~= nil then return firsts[key] end
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
