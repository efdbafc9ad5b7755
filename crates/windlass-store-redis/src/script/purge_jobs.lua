-- Forgets jobs that ended before.
local before, limit = tonumber(nx()), tonumber(nx())
local done = 0
local PARTS = {'status', 'payload', 'result', 'error', 'submitted_at', 'started_at', 'completed_at', 'meta'}

local function forget(job)
  local keys = {}
  for i, part in ipairs(PARTS) do keys[i] = $job..job.id .. ':' .. part end
  local key = (L.asked_of(job)):match(',{"key":"(.*)"}$')
  if key then
    key = $job_key..job.tenant .. ':' .. job.queue .. ':' .. key
    if redis.call('GET', key) == job.id then keys[#keys + 1] = key end
  end
  redis.call('UNLINK', unpack(keys))
end

if before > MAX then before = MAX end
for _, status in ipairs({'completed', 'failed', 'cancelled'}) do
  local from = string.format('[%015.0f', MAX - before + 1)
  local old = limit > done and redis.call('ZREVRANGEBYLEX', $ended_jobs..status, '+', from, 'LIMIT', 0, limit - done) or {}
  local ids = {}
  for i, member in ipairs(old) do ids[i] = member:sub(16, 51) end
  preload(ids)
  for i, id in ipairs(ids) do
    local job = L.job_of(id)
    if job then forget(job) end
    zrem($ended_jobs..status, old[i])
    done = done + 1
  end
end
flush()
return done
