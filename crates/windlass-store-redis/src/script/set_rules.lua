-- Sets limits and holds; those whom one kept from taking turns take part again, and are judged anew.
for _ = 1, tonumber(nx()) do
  local field, text, queue = nx(), nx(), nx()
  if text == '' then redis.call('HDEL', $rules, field) else redis.call('HSET', $rules, field, text) end
  if text ~= '' and queue ~= '' then redis.call('ZADD', $queues, 0, queue) end
end
for _, member in ipairs(redis.call('ZRANGE', $parked, 0, -1)) do
  local tenant, queue = member:match('^(%S+) (%S+)$')
  join_ring(queue, tenant)
end
redis.call('DEL', $parked)
wakes = true
finish()
