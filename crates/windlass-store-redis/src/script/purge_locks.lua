-- Forgets locks that expired before, none that is held now.
local before, limit = tonumber(nx()), tonumber(nx())
local upto = before > now and s(now) or '(' .. s(before)
local old = redis.call('ZRANGEBYSCORE', $lock_until, '-inf', upto, 'LIMIT', 0, limit)
forget(old)
return #old
