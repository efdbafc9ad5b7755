-- Tenant locks: what all their scripts share.

-- Who holds a tenant now, as plan, task, fence, since and until; nothing if nobody does.
local function holder(tenant)
  local name = redis.call('GET', $lock..tenant)
  if not name then return nil end
  local of = redis.call('HMGET', $lock_meta..tenant, 'fence', 'since', 'until')
  if tonumber(of[3]) <= now then return nil end
  local plan, task = name:match('^([^:]*):(.*)$')
  return {plan = plan, task = task, fence = of[1], since = of[2], till = of[3]}
end

-- Whether it has to be listed.
local function judge_index(tenant)
  if redis.call('EXISTS', $lock..tenant, $freeze..tenant) == 0 then redis.call('ZREM', $lock_index, tenant) end
end

local function forget(tenants)
  for from = 1, #tenants, 1000 do
    local last = math.min(from + 999, #tenants)
    local keys, freezes, bare = {}, {}, {}
    for i = from, last do
      local tenant, n = tenants[i], #keys
      keys[n + 1], keys[n + 2], freezes[#freezes + 1] = $lock..tenant, $lock_meta..tenant, $freeze..tenant
    end
    redis.call('DEL', unpack(keys))
    redis.call('ZREM', $lock_until, unpack(tenants, from, last))
    for i, freeze in ipairs(redis.call('MGET', unpack(freezes))) do
      if not freeze then bare[#bare + 1] = tenants[from + i - 1] end
    end
    if #bare > 0 then redis.call('ZREM', $lock_index, unpack(bare)) end
  end
end

-- As Rust reads it: a holder's five texts or nothing, and a freeze as JSON or nothing.
local function tenant_of(tenant)
  local held = holder(tenant)
  return {held and {held.plan, held.task, held.fence, held.since, held.till} or false,
    redis.call('GET', $freeze..tenant)}
end

local function still(tenant, task, fence)
  local held = holder(tenant)
  return held and held.task == task and held.fence == fence
end
