-- Grants locks, each with the next fence of the store.
local out, names, ends, fence = {}, {}, {}, nil
local count = tonumber(nx())
for i = 1, count do
  local tenant, plan, task, ttl = nx(), nx(), nx(), tonumber(nx())
  local held = holder(tenant)
  local frozen = redis.call('GET', $freeze..tenant)
  if frozen or (held and held.task ~= task) then
    out[i] = {0, tenant_of(tenant)}
  else
    fence = fence and fence + 1 or draw(count)
    local text, since, till, n = s(fence), held and held.since or s(now), s(after_now(ttl)), #names
    redis.call('SET', $lock..tenant, plan .. ':' .. task)
    redis.call('HSET', $lock_meta..tenant, 'fence', text, 'since', since, 'until', till)
    names[n + 1], names[n + 2] = 0, tenant
    ends[n + 1], ends[n + 2] = till, tenant
    out[i] = {1, {{plan, task, text, since, till}, false}}
  end
end
for i = 1, #names, 4000 do
  local last = math.min(i + 3999, #names)
  redis.call('ZADD', $lock_index, unpack(names, i, last))
  redis.call('ZADD', $lock_until, unpack(ends, i, last))
end
return out
