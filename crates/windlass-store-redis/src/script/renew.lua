-- Prolongs locks, if task and fence still hold them.
local ttl = tonumber(nx())
local till = s(after_now(ttl))
local out = {}
for i = 1, tonumber(nx()) do
  local tenant, task, fence = nx(), nx(), nx()
  out[i] = ''
  if still(tenant, task, fence) then
    redis.call('HSET', $lock_meta..tenant, 'until', till)
    redis.call('ZADD', $lock_until, till, tenant)
    out[i] = till
  end
end
return out
