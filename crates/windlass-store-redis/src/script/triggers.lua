-- Triggers: what all their scripts share. A field that has its usual value is not there.
local RUN = {'status', 'triggerAt', 'tryAt', 'retryCount', 'held', 'asked', 'owner', 'leaseUntil', 'fence', 'error', 'made',
  'endedAt'}
local SPEC = {'schedule', 'target', 'payload', 'tenant', 'spec'}

-- All fields by name; nothing for a trigger that is not there.
local function load(id)
  local pairs = redis.call('HGETALL', $trigger..id)
  if #pairs == 0 then return nil end
  local row = {}
  for i = 1, #pairs, 2 do row[pairs[i]] = pairs[i + 1] end
  return row, pairs
end

local function read_fields()
  local row = {}
  for _ = 1, tonumber(nx()) do
    local name = nx()
    row[name] = nx()
  end
  return row
end

local function read_notes()
  local notes = {}
  for i = 1, tonumber(nx()) do notes[i] = nx() end
  return notes
end

local function same(names, one, other)
  for _, name in ipairs(names) do
    if one[name] ~= other[name] then return false end
  end
  return true
end

-- When the store must look at it next, if ever.
local function wake_at(row)
  if row.paused or row.held then return nil end
  if row.status == 'PENDING' then return row.tryAt or row.triggerAt end
  if row.status == 'PROCESSING' then return row.leaseUntil or '0' end
end

-- Its entries: a function of what it is.
local function index(id, row)
  local at = wake_at(row)
  if at then redis.call('ZADD', $due, at, id) else redis.call('ZREM', $due, id) end
  if row.held or row.status == 'DEAD' then
    redis.call('ZADD', $triggers_waiting, 0, id)
  else
    redis.call('ZREM', $triggers_waiting, id)
  end
  if row.status == 'COMPLETED' and row.endedAt then
    redis.call('ZADD', $triggers_ended, row.endedAt, id)
  else
    redis.call('ZREM', $triggers_ended, id)
  end
end

local function store(id, row)
  local all = {}
  for name, value in pairs(row) do
    all[#all + 1] = name
    all[#all + 1] = value
  end
  redis.call('DEL', $trigger..id)
  redis.call('HSET', $trigger..id, unpack(all))
  redis.call('ZADD', $triggers_all, 0, id)
  index(id, row)
end

-- The newest are kept.
local function tell(id, notes)
  if #notes == 0 then return end
  for i = math.max(1, #notes - 99), #notes do redis.call('RPUSH', $trigger_notes..id, notes[i]) end
  redis.call('LTRIM', $trigger_notes..id, -100, -1)
end

local function remove(id)
  redis.call('ZREM', $due, id)
  redis.call('ZREM', $triggers_all, id)
  redis.call('ZREM', $triggers_waiting, id)
  redis.call('ZREM', $triggers_ended, id)
  redis.call('UNLINK', $trigger_notes..id)
  return redis.call('UNLINK', $trigger..id)
end
