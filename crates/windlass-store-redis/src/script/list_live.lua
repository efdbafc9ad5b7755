-- Live jobs by queue, tenant and place, after a given one. Answers each with where it stands, at most so many.
local only_queue, only_tenant, with_tenant = nx(), nx(), nx() == '1'
local queue_after, tenant_after, member_after, limit = nx(), nx(), nx(), tonumber(nx())
local out = {}

local function walk_lane(queue, tenant, from)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', $live..queue .. ':' .. tenant, from, '+', 'LIMIT', 0, limit - #out)) do
    out[#out + 1] = {queue, tenant, member}
  end
end

local function walk_queue(queue)
  local here = queue == queue_after
  if with_tenant then
    return walk_lane(queue, only_tenant, here and '(' .. member_after or '-')
  end
  for _, tenant in ipairs(redis.call('ZRANGEBYLEX', $lanes..queue, here and '[' .. tenant_after or '-', '+')) do
    if #out >= limit then return end
    walk_lane(queue, tenant, here and tenant == tenant_after and '(' .. member_after or '-')
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
