-- Forgets plans that ended before, with everything of theirs, and operations and instances that old.
local before, limit = tonumber(nx()), tonumber(nx())
if limit == 0 then return 0 end
local left = limit

local function forget_plan(plan)
  local of = redis.call('HMGET', $plan..plan, 'status', 'createdAt')
  if of[1] then
    local member = string.format('%015.0f %s', MAX - of[2], plan)
    redis.call('ZREM', $plans..'all', member)
    redis.call('ZREM', $plans..of[1], member)
  end
  for _, owner in ipairs(redis.call('SMEMBERS', $claimers..plan)) do redis.call('DEL', $claimed..plan .. ':' .. owner) end
  redis.call('DEL', $plan..plan, $plan_spec..plan, $plan_history..plan, $tally..plan, $ready..plan, $claimers..plan)
  redis.call('ZREM', $open, plan)
  redis.call('ZREM', $ended_plans, plan)
  redis.call('SADD', $gone_plans, plan)
end

local function forget_task(member)
  local id = member:match('(%S+)$')
  local of = redis.call('HMGET', $task..id, 'status', 'tenantId', 'owner', 'planId')
  if of[1] then
    redis.call('ZREM', $tasks..'all', member)
    redis.call('ZREM', $tasks..of[1], member)
    redis.call('ZREM', $tenant_tasks..of[2], member)
    if of[3] and of[3] ~= '' then
      redis.call('SREM', $owned..of[3], id)
      redis.call('SREM', $asked..of[3], id)
      redis.call('DEL', $seal..of[3])
    end
    if redis.call('GET', $tenant_task..of[2]) == id then redis.call('DEL', $tenant_task..of[2]) end
    if redis.call('HGET', $tenant..of[2], 'started') == id then redis.call('HSET', $tenant..of[2], 'started', '') end
  end
  redis.call('UNLINK', $task..id, $task_spec..id, $task_history..id, $ckpt..id, $ckpt_meta..id)
end

for _, plan in ipairs(redis.call('ZRANGEBYSCORE', $ended_plans, '-inf', '(' .. s(before), 'LIMIT', 0, limit)) do
  forget_plan(plan)
end
for _, plan in ipairs(redis.call('SMEMBERS', $gone_plans)) do
  local members = redis.call('ZPOPMIN', $plan_tasks..plan, left)
  for i = 1, #members, 2 do
    forget_task(members[i])
    left = left - 1
  end
  if redis.call('EXISTS', $plan_tasks..plan) == 0 then redis.call('SREM', $gone_plans, plan) end
  if left == 0 then return limit end
end
for _, op in ipairs(redis.call('ZRANGEBYSCORE', $ops, '-inf', '(' .. s(before), 'LIMIT', 0, left)) do
  redis.call('UNLINK', $op..op)
  redis.call('ZREM', $ops, op)
  left = left - 1
end
if left > 0 then
  local upto = before > now and s(now) or '(' .. s(before)
  for _, instance in ipairs(redis.call('ZRANGEBYSCORE', $instances, '-inf', upto, 'LIMIT', 0, left)) do
    redis.call('UNLINK', $instance..instance, $seal..instance)
    redis.call('ZREM', $instances, instance)
    left = left - 1
  end
end
return limit - left
