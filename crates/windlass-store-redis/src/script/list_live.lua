-- Live jobs by queue, tenant and place, after a given one. Answers each with where it stands, at most so many.
local only_queue, only_tenant, with_tenant = nx(), nx(), nx() == '1'
local queue_after, tenant_after, member_after, limit = nx(), nx(), nx(), tonumber(nx())
local out = {}

-- What runs in a queue, by tenant, each as it would stand if it waited.
local function running_of(queue)
  local by = {}
  local entries = redis.call('ZRANGE', $running..queue, 0, -1)
  for from = 1, #entries, 1000 do
    local keys = {}
    for i = from, math.min(from + 999, #entries) do keys[#keys + 1] = $job..entries[i]:sub(1, 36) .. ':meta' end
    for i, meta in ipairs(redis.call('MGET', unpack(keys))) do
      local entry = entries[from + i - 1]
      local run_at, priority, seq = (meta or ''):match('^%[%d+,%d+,%d+,%d+,"[^"]*",%d+,(%d+),%d+,%d+,"[^"]*","[^"]*",(%-?%d+),(%d+)')
      if run_at then
        local tenant = entry:match('^[^:!]*', 37)
        by[tenant] = by[tenant] or {}
        table.insert(by[tenant], string.format('%03d%015.0f%016.0f%s', 127 - priority, run_at, seq, entry:sub(1, 36)))
      end
    end
  end
  return by
end

-- What waits, what waits for its time and what runs, in one order.
local function walk_lane(queue, tenant, after, running)
  local lane, from, room = queue .. ':' .. tenant, after == '' and '-' or '(' .. after, limit - #out
  local all = redis.call('ZRANGEBYLEX', $lane..lane, from, '+', 'LIMIT', 0, room)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', $waits..lane, from, '+', 'LIMIT', 0, room)) do all[#all + 1] = member end
  for _, member in ipairs(running[tenant] or {}) do
    if member:sub(1, 34) > after:sub(1, 34) then all[#all + 1] = member end
  end
  table.sort(all, function(a, b) return a:sub(1, 34) < b:sub(1, 34) end)
  for i = 1, math.min(#all, room) do out[#out + 1] = {queue, tenant, all[i]} end
  if #all == 0 and after == '' and redis.call('EXISTS', $lane..lane, $waits..lane) == 0 and not running[tenant] then
    redis.call('ZREM', $lanes..queue, tenant)
    redis.call('ZREM', $ring..queue, tenant)
  end
end

local function walk_queue(queue)
  local here, running = queue == queue_after, running_of(queue)
  if with_tenant then return walk_lane(queue, only_tenant, here and member_after or '', running) end
  for _, tenant in ipairs(redis.call('ZRANGEBYLEX', $lanes..queue, here and '[' .. tenant_after or '-', '+')) do
    if #out >= limit then return end
    walk_lane(queue, tenant, here and tenant == tenant_after and member_after or '', running)
  end
end

if only_queue ~= '' then
  walk_queue(only_queue)
else
  for _, queue in ipairs(redis.call('ZRANGEBYLEX', $queues, queue_after == '' and '-' or '[' .. queue_after, '+')) do
    if #out >= limit then break end
    walk_queue(queue)
  end
end
return out
