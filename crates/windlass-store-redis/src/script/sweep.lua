-- Judges running jobs whose lease has run out and that will not be delivered again.
local left_over = tonumber(nx())
local done = 0
for _, queue in ipairs(redis.call('ZRANGE', $queues, 0, -1)) do
  if done >= left_over then break end
  local passed = 0
  while true do
    local entries = redis.call('ZRANGEBYSCORE', $running..queue, '-inf', s(now), 'LIMIT', passed, 200)
    local ids = {}
    for i, entry in ipairs(entries) do ids[i] = entry:sub(1, 36) end
    preload(ids)
    for i, id in ipairs(ids) do
      local job = L.job_of(id)
      if not job then
        redis.call('ZREM', $running..queue, entries[i])
      elseif done < left_over and L.expire(job) then
        done = done + 1
      else
        passed = passed + 1
      end
    end
    flush()
    if #ids < 200 or done >= left_over or passed >= 10000 then break end
  end
end
finish()
return done
