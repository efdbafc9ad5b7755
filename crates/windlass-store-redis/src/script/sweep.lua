-- Judges running jobs whose lease has run out and that will not be delivered again.
local left_over = tonumber(nx())
local done = 0
for _, queue in ipairs(redis.call('ZRANGE', $queues, 0, -1)) do
  if done >= left_over then break end
  local passed = 0
  while true do
    local entries = redis.call('ZRANGEBYSCORE', $running..queue, '-inf', s(now), 'LIMIT', passed, 200)
    for _, job in ipairs(L.running_jobs(queue, entries)) do
      if done < left_over and L.expire(job) then
        done = done + 1
      else
        passed = passed + 1
      end
    end
    flush()
    if #entries < 200 or done >= left_over or passed >= 10000 then break end
  end
end
finish()
return done
