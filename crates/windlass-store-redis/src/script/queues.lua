-- Queues that have live jobs, a rule or a worker, by name.
local after, limit = nx(), tonumber(nx())
local out, from = {}, after == '' and '-' or '(' .. after

-- The earliest time that has come of what waits: of each lane the first of each priority.
local function oldest(queue)
  local first = tonumber(redis.call('ZRANGE', $later..queue, 0, 0, 'WITHSCORES')[2] or 'x')
  for i, tenant in ipairs(redis.call('ZRANGE', $lanes..queue, 0, 999)) do
    local lane, least = $lane..queue .. ':' .. tenant, '-'
    while true do
      local member = redis.call('ZRANGEBYLEX', lane, least, '+', 'LIMIT', 0, 1)[1]
      if not member then break end
      local at = tonumber(member:sub(4, 18))
      if not first or at < first then first = at end
      least = '(' .. member:sub(1, 3) .. '~'
    end
  end
  return first and first <= now and s(first) or ''
end

while #out < limit do
  local names = redis.call('ZRANGEBYLEX', $queues, from, '+', 'LIMIT', 0, limit)
  for _, queue in ipairs(names) do
    if #out >= limit then break end
    local of = redis.call('HMGET', $queue..queue, 'waiting', 'workerUntil')
    local waiting, running = tonumber(of[1] or '0'), redis.call('ZCARD', $running..queue)
    local till = tonumber(of[2] or '0')
    till = till > now and s(till) or ''
    if waiting + running > 0 or till ~= '' or redis.call('HEXISTS', $rules, 'queue:' .. queue) == 1 then
      out[#out + 1] = {queue, waiting, running, oldest(queue), till}
    else
      redis.call('ZREM', $queues, queue)
      redis.call('DEL', $ring..queue)
    end
  end
  if #names < limit then break end
  from = '(' .. names[#names]
end
return out
