-- Forgets triggers that ended before, with their notes.
local before, limit = tonumber(nx()), tonumber(nx())
local old = redis.call('ZRANGEBYSCORE', $triggers_ended, '-inf', '(' .. s(before), 'LIMIT', 0, limit)
for _, id in ipairs(old) do remove(id) end
return #old
