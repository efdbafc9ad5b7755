-- Begins, renews or ends an instance's lease; says what is wanted of its tasks.
local instance, lease_ms = nx(), tonumber(nx())
local till = after_now(lease_ms)
redis.call('HSETNX', $instance..instance, 'since', s(now))
redis.call('HSET', $instance..instance, 'until', s(till))
redis.call('ZADD', $instances, till, instance)
local asked = {}
for _, task in ipairs(redis.call('SMEMBERS', $asked..instance)) do
  local control = redis.call('HMGET', $task..task, 'pause', 'cancel', 'skip', 'start', 'revoked')
  if control[1] and (control[1] ~= '' or control[2] ~= '' or control[3] ~= '' or control[5] ~= '') then
    asked[#asked + 1] = {task, unpack(control)}
  end
end
if lease_ms == 0 then
  redis.call('DEL', $seal..instance)
  wake('state')
end
return {till, asked}
