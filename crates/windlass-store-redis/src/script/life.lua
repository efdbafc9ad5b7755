-- The life of a job, taken apart: what few jobs need, the most common is done without.
local L = {}

-- A record is short, because every text a script touches is hashed: version, attempt, deliveries, fence, worker, end of
-- the lease, not before, submitted, started, queue, tenant, priority, place in the order of submission, and the rest.
local META = '^%[(%d+),(%d+),(%d+),(%d+),"([^"]*)",(%d+),(%d+),(%d+),(%d+),"([^"]*)","([^"]*)",(%-?%d+),(%d+)(.*)%]$'
-- A job from its record. Every field it may ever have is named here, so that its table never grows.
function L.parsed(id, text)
  local version, attempt, deliveries, fence, worker, lease, run_at, submitted, started, queue, tenant, priority, seq, rest =
    text:match(META)
  return {id = id, version = version, attempt = attempt, deliveries = deliveries, fence = fence, worker = worker,
    lease = lease, runAt = run_at, submitted = submitted, started = started, queue = queue, tenant = tenant,
    priority = priority, seq = seq, rest = rest, status = false, meta = false, error = false}
end

-- Records are taken apart when somebody asks: what is most common is done without. A job that was completed keeps the
-- record it ran with, which is one write behind.
function L.job_of(id)
  if cache[id] == nil then preload({id}) end
  local job = cache[id]
  if type(job) == 'string' then
    job = L.parsed(id, job)
    job.status = statuses[id] or false
    if job.worker ~= '' and job.status == 'completed' then
      job.version, job.worker, job.deliveries, job.lease = job.version + 1, '', '0', '0'
    end
    cache[id] = job
  end
  return job or nil
end

function L.write(job, name, value)
  sets[set_n + 1] = JOB .. job.id .. ':' .. name
  sets[set_n + 2] = value
  set_n = set_n + 2
end

function L.forget_part(job, name)
  dels[#dels + 1] = $job..job.id .. ':' .. name
end

function L.meta_of(job)
  return '[' .. job.version .. ',' .. job.attempt .. ',' .. job.deliveries .. ',' .. job.fence .. ',"' .. job.worker
    .. '",' .. job.lease .. ',' .. job.runAt .. ',' .. job.submitted .. ',' .. job.started .. ',"' .. job.queue .. '","'
    .. job.tenant .. '",' .. job.priority .. ',' .. job.seq .. job.rest .. ']'
end

function L.write_meta(job)
  job.version = job.version + 1
  job.meta = L.meta_of(job)
  L.write(job, 'meta', job.meta)
end

function L.status_of(job)
  if job.worker ~= '' then return 'running' end
  if not job.status then job.status = redis.call('GET', $job..job.id .. ':status') end
  return job.status
end

-- The place among a tenant's jobs: by priority, time and order of submission. It is as long for every job.
function L.member_of(job)
  local run_at, seq = job.runAt, job.seq
  local priority = job.priority == '0' and NORMAL or string.format('%03d', 127 - job.priority)
  return priority .. ZEROS:sub(#run_at + 2) .. run_at .. ZEROS:sub(#seq + 1) .. seq .. job.id
end

-- It waits, and is counted.
function L.enter_waiting(job)
  put_waiting(job, L.member_of(job))
  add_count($queue..job.queue, 'waiting', 1)
  if job.tenant ~= '' then add_count($of_tenant..job.tenant, 'waiting', 1) end
  wakes = true
end

-- Its place in the list of what runs. Whoever was handed it knows what stands there until somebody asks for its end.
function L.entry_of(job)
  return job.id .. job.tenant .. (L.wants_end(job) and '!' or ':') .. job.fence
end

-- The jobs of entries of that list. An entry that is not a job's own, as older versions leave them, is put right.
function L.running_jobs(queue, entries)
  local ids, jobs = {}, {}
  for i, entry in ipairs(entries) do ids[i] = entry:sub(1, 36) end
  preload(ids)
  for i, id in ipairs(ids) do
    local job = L.job_of(id)
    local runs = job and job.worker ~= ''
    if runs and entries[i] == L.entry_of(job) then
      jobs[#jobs + 1] = job
    else
      redis.call('ZREM', $running..queue, entries[i])
      if runs then redis.call('ZADD', $running..queue, job.lease, L.entry_of(job)) end
    end
  end
  return jobs
end

-- So many of a tenant's run no longer: they are not counted, and there may be room for others.
function L.count_left(tenant, n)
  if tenant ~= '' then add_count($of_tenant..tenant, 'running', -n) end
  if has_rules then
    wakes = true
    if tenant ~= '' then unpark(tenant) end
  end
end

function L.leave_running(job)
  zrem($running..job.queue, L.entry_of(job))
  L.count_left(job.tenant, 1)
end

-- What people asked stands behind the rest, which is fixed: the fixed part, a request to end, and who asked last.
function L.asked_of(job)
  local fixed, cancel, asked = job.rest, '', ''
  local from = fixed:find(',{"asked":', 1, true)
  if from then fixed, asked = fixed:sub(1, from - 1), fixed:sub(from) end
  from = fixed:find(',{"cancel":', 1, true)
  if from then fixed, cancel = fixed:sub(1, from - 1), fixed:sub(from) end
  return fixed, cancel, asked
end

function L.wants_end(job)
  return job.rest:find(',{"cancel":', 1, true) ~= nil
end

-- Nobody runs it any more. Its fence stays: what comes late under it is known.
function L.left(job, status)
  job.status, job.worker, job.deliveries, job.lease = status, '', 0, '0'
  if L.wants_end(job) then
    local fixed, _, asked = L.asked_of(job)
    job.rest = fixed .. asked
  end
  L.write(job, 'status', status)
  L.write_meta(job)
end

function L.ended(job, status)
  local text, newest = end_of(job.started ~= '0' and job.started or job.submitted)
  L.write(job, 'completed_at', text)
  zadd($ended_jobs..status, 0, newest .. job.id .. job.queue .. ':' .. job.tenant)
  ended_ids[#ended_ids + 1] = job.id
  L.left(job, status)
end

function L.failed(job, text)
  job.error = text
  L.write(job, 'error', text)
  L.leave_running(job)
  L.ended(job, 'failed')
end

function L.waits_again(job, run_at)
  L.leave_running(job)
  job.runAt = s(math.min(math.max(run_at, now), MAX))
  L.left(job, 'pending')
  L.enter_waiting(job)
end

function L.windlass_error(code, message)
  return '{"class":"windlass","message":"' .. message .. '","code":"' .. code .. '"}'
end

function L.numbers_of(job)
  local most, first, longest, timeout =
    job.rest:match('^,(%d+),(%d+),(%d+),(%d+)')
  return tonumber(most), tonumber(first), tonumber(longest), tonumber(timeout)
end

-- The next attempt after its pause, if there is one. `spread` of 0 to 999 takes up to half of the pause away.
function L.again_or_failed(job, text, retry, spread)
  local most, first, longest = L.numbers_of(job)
  local tried = tonumber(job.attempt)
  if not retry or tried >= most then return L.failed(job, text) end
  local full = math.min(first * 2 ^ (math.max(tried, 1) - 1), longest)
  job.error = text
  L.write(job, 'error', text)
  L.waits_again(job, now + full - math.floor(full * 0.5 * (math.min(spread, 999) / 1000)))
end

function L.deadline(job)
  local _, _, _, timeout = L.numbers_of(job)
  if timeout == 0 then return nil end
  return tonumber(job.started) + timeout, timeout
end

-- Judges a running job whose lease has run out: whether it ends or waits for its next attempt, and is not delivered again.
function L.expire(job)
  if L.wants_end(job) then
    L.failed(job, L.windlass_error('CANCELLED', 'its end was asked for, and its worker was not heard of again'))
    return true
  end
  local till, timeout = L.deadline(job)
  if till and till <= now then
    L.again_or_failed(job, L.windlass_error('TIMEOUT', 'no answer within ' .. s(timeout) .. ' ms'), true, 0)
    return true
  end
  if tonumber(job.deliveries) >= 3 then
    L.failed(job, L.windlass_error('LOST', 'delivered ' .. job.deliveries .. ' times, and no worker answered'))
    return true
  end
  return false
end
