-- Grants locks, each with the next fence of the store.
local out = {}
for i = 1, tonumber(nx()) do
  local tenant, plan, task, ttl = nx(), nx(), nx(), tonumber(nx())
  local held = holder(tenant)
  local frozen = redis.call('GET', $freeze..tenant)
  if frozen or (held and held.task ~= task) then
    out[i] = {0, tenant_of(tenant)}
  else
    local fence, since, till = s(draw(1)), held and held.since or s(now), s(after_now(ttl))
    redis.call('SET', $lock..tenant, plan .. ':' .. task)
    redis.call('HSET', $lock_meta..tenant, 'fence', fence, 'since', since, 'until', till)
    redis.call('ZADD', $lock_index, 0, tenant)
    redis.call('ZADD', $lock_until, till, tenant)
    out[i] = {1, {{plan, task, fence, since, till}, false}}
  end
end
return out
