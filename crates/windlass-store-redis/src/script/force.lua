-- What a person does to a tenant's lock; the operation is kept in the same step.
local tenant, what, freeze_head, freeze_tail, op, digest = nx(), nx(), nx(), nx(), nx(), nx()
if op ~= '' then
  local kept = redis.call('HMGET', $op..op, 'digest', 'answer', 'before')
  if kept[1] and kept[1] ~= digest then return {'OpReused'} end
  if kept[1] then return {'kept', kept[2] or ''} end
end
local before = tenant_of(tenant)
if what == 'release' then
  forget({tenant})
elseif what == 'unfreeze' then
  redis.call('DEL', $freeze..tenant)
  judge_index(tenant)
elseif not before[2] then
  redis.call('SET', $freeze..tenant, freeze_head .. s(now) .. freeze_tail)
  redis.call('ZADD', $lock_index, 0, tenant)
end
if op ~= '' then
  -- The same text that Rust would make of it, so that a repeat is answered the same.
  local answer = '{"tenantId":"' .. tenant .. '"'
  local held = before[1]
  if held then
    answer = answer .. ',"holder":{"tenantId":"' .. tenant .. '","planId":"' .. held[1] .. '","taskId":"' .. held[2]
      .. '","fence":' .. held[3] .. ',"since":' .. held[4] .. ',"until":' .. held[5] .. '}'
  end
  if before[2] then answer = answer .. ',"freeze":' .. before[2] end
  answer = answer .. '}'
  redis.call('HSET', $op..op, 'digest', digest, 'version', '0', 'seq', '0', 'at', s(now), 'answer', answer)
  redis.call('ZADD', $ops, now, op)
end
wake('locks')
return {'ok', before}
