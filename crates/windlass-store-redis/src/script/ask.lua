-- What a person does to jobs: cancel or requeue, at the time of this clock.
local what, head, tail = nx(), nx(), nx()
local asker = head .. s(now) .. tail
local ids = {}
for i = 1, tonumber(nx()) do ids[i] = nx() end
preload(ids)

local function ask_cancel(job)
  local status = L.status_of(job)
  if status == 'running' then
    if L.wants_end(job) then return 'requested' end
    local fixed, _, asked = L.asked_of(job)
    zrem($running..job.queue, L.entry_of(job))
    job.rest = fixed .. ',{"cancel":' .. asker .. '}' .. asked
    zadd($running..job.queue, job.lease, L.entry_of(job))
    L.write_meta(job)
    return 'requested'
  end
  if status ~= 'pending' then return status end
  local member = L.member_of(job)
  zrem($lane..job.queue .. ':' .. job.tenant, member)
  zrem($later..job.queue, member .. job.tenant)
  zrem($waits..job.queue .. ':' .. job.tenant, member)
  add_count($queue..job.queue, 'waiting', -1)
  if job.tenant ~= '' then add_count($of_tenant..job.tenant, 'waiting', -1) end
  job.rest = (L.asked_of(job)) .. ',{"asked":' .. asker .. '}'
  L.forget_part(job, 'error')
  L.ended(job, 'cancelled')
  return 'cancelled now'
end

local function ask_requeue(job)
  local status = L.status_of(job)
  if status ~= 'failed' then return {'State', status} end
  local when = redis.call('GET', $job..job.id .. ':completed_at')
  zrem($ended_jobs..'failed', string.format('%015.0f', MAX - when) .. job.id .. job.queue .. ':' .. job.tenant)
  for _, name in ipairs({'error', 'started_at', 'completed_at'}) do L.forget_part(job, name) end
  job.rest = (L.asked_of(job)) .. ',{"asked":' .. asker .. '}'
  job.attempt, job.started, job.runAt = 0, '0', s(now)
  L.left(job, 'pending')
  L.enter_waiting(job)
  return 'requeued'
end

local out = {}
for i, id in ipairs(ids) do
  local job = L.job_of(id)
  out[i] = job and (what == 'cancel' and ask_cancel(job) or what ~= 'cancel' and ask_requeue(job)) or {'NotFound'}
end
finish()
return out
