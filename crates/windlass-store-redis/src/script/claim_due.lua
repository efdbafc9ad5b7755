-- Claims what is due, in order. Answers each as it was; what a claim makes of it follows from that.
local owner, lease_ms, limit = nx(), tonumber(nx()), tonumber(nx())
local alive = redis.call('HMGET', $alive, 'since', 'until')
local since, till = tonumber(alive[1] or '0'), tonumber(alive[2] or '0')
if now > till then since = now end
till = math.max(till, after_now(lease_ms))
redis.call('HSET', $alive, 'since', s(since), 'until', s(till))

local due = limit > 0 and redis.call('ZRANGEBYSCORE', $due, '-inf', s(now), 'LIMIT', 0, limit) or {}
local next_at = redis.call('ZRANGE', $due, #due, #due, 'WITHSCORES')[2] or ''
local fence, lease = #due > 0 and s(draw(1)) or '0', s(after_now(lease_ms))
local out, entries = {}, {}
for i, id in ipairs(due) do
  local key = $trigger..id
  local row = redis.call('HGETALL', key)
  local status, retries, version
  for at = 1, #row, 2 do
    local name = row[at]
    if name == 'status' then
      status = row[at + 1]
    elseif name == 'retryCount' then
      retries = row[at + 1]
    elseif name == 'version' then
      version = row[at + 1]
    end
  end
  version = s(version + 1)
  if status == 'PROCESSING' then
    redis.call('HSET', key, 'owner', owner, 'fence', fence, 'leaseUntil', lease, 'version', version, 'retryCount',
      s((retries or 0) + 1))
  else
    redis.call('HSET', key, 'status', 'PROCESSING', 'owner', owner, 'fence', fence, 'leaseUntil', lease, 'version', version)
  end
  entries[#entries + 1] = lease
  entries[#entries + 1] = id
  out[i] = row
end
if #entries > 0 then redis.call('ZADD', $due, unpack(entries)) end
return {out, next_at, s(since), s(now), fence, lease}
