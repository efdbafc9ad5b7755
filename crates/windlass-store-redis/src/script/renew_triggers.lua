-- Prolongs claims.
local lease = s(after_now(tonumber(nx())))
local out = {}
for i = 1, tonumber(nx()) do
  local id, fence = nx(), nx()
  local row = redis.call('HMGET', $trigger..id, 'status', 'fence', 'version', 'paused', 'held')
  if not row[1] then
    out[i] = {'NotFound'}
  elseif (row[2] or '0') ~= fence then
    out[i] = {'Stale', fence, row[2] or '0'}
  elseif row[1] ~= 'PROCESSING' then
    out[i] = {'State', row[1]}
  else
    redis.call('HSET', $trigger..id, 'leaseUntil', lease, 'version', s(row[3] + 1))
    if not row[4] and not row[5] then redis.call('ZADD', $due, lease, id) end
    out[i] = {'ok', lease}
  end
end
return out
