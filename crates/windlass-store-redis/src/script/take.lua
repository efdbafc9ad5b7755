-- Makes tasks an instance's: what is ready, or exactly those that are named.
local FIELDS = {'owner', 'status', 'start', 'readyAt', 'position', 'planId', 'createdAt', 'version', 'control'}
local instance, plan, limit = nx(), nx(), tonumber(nx())
local named = tonumber(nx())

local function load_task(id)
  local r = redis.call('HMGET', $task..id, unpack(FIELDS))
  if not r[2] then return nil end
  local row = {id = id}
  for i = 1, #FIELDS do row[FIELDS[i]] = r[i] or '' end
  return row
end

local function own(row)
  local before = {}
  for name, value in pairs(row) do before[name] = value end
  row.owner = instance
  redis.call('HSET', $task..row.id, 'owner', instance, 'version', s(tonumber(row.version) + 1))
  reindex(before, row)
  break_seal(before.owner)
  return {'ok', redis.call('HGETALL', $task..row.id)}
end

local function take_named(id)
  local row = load_task(id)
  if not row then return {'NotFound', 'task ' .. id} end
  if row.owner == instance then
    -- Whoever asks does not know what became of it, and something may be on its way.
    break_seal(instance)
    return {'ok', redis.call('HGETALL', $task..id)}
  end
  if is_live(row.owner) then return {'Owned', row.owner, lease(row.owner)} end
  local runs = row.status == 'PENDING' or row.status == 'RUNNING' or row.status == 'ROLLING_BACK'
  if row.start == '' and not runs then return {'State', row.status, 'take', 0} end
  return own(row)
end

-- What of a plan may be handed out, in order: its class, its member, its task, and whether it has a slot already.
local function candidates(of, want)
  local list = {}
  for _, class in ipairs({0, 2}) do
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', $ready..of, class, class, 'LIMIT', 0, want)) do
      if tonumber(member:sub(1, 15)) > now then break end
      list[#list + 1] = {class, member, member:sub(28), false}
    end
  end
  -- What somebody claimed and did not begin is handed out again when they are gone.
  for _, owner in ipairs(redis.call('SMEMBERS', $claimers..of)) do
    local held = is_live(owner) and {} or redis.call('ZRANGE', $claimed..of .. ':' .. owner, 0, -1, 'WITHSCORES')
    for i = 1, #held, 2 do
      if tonumber(held[i]:sub(1, 15)) <= now then
        list[#list + 1] = {tonumber(held[i + 1]), held[i], held[i]:sub(28), true}
      end
    end
  end
  table.sort(list, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2]:sub(1, 26) < b[2]:sub(1, 26)
  end)
  return list
end

local out = {}
local function take_of(of)
  local row = redis.call('HMGET', $plan..of, 'status', 'conductor', 'slots', 'maxConcurrency')
  if row[1] ~= 'RUNNING' or not is_live(row[2] or '') then return end
  local slots, most = tonumber(row[3] or '0'), tonumber(row[4])
  for _, one in ipairs(candidates(of, math.min(limit - #out, math.max(most - slots, 0)))) do
    if #out >= limit then break end
    local others = one[4] and slots - 1 or slots
    if others < most then
      if not one[4] then slots = slots + 1 end
      out[#out + 1] = own(load_task(one[3]))
    end
  end
  write_index()
  judge_open(of)
end

if not is_live(instance) then
  if named == 0 then return {{'NoLease'}} end
  for i = 1, named do out[i] = {'NoLease'} end
  return out
end
if named > 0 then
  local touched = {}
  for i = 1, named do
    local id = nx()
    out[i] = take_named(id)
    if out[i][1] == 'ok' then touched[redis.call('HGET', $task..id, 'planId')] = true end
  end
  write_index()
  for of in pairs(touched) do judge_open(of) end
elseif plan ~= '' then
  take_of(plan)
else
  for _, of in ipairs(redis.call('ZRANGE', $open, 0, -1)) do
    if #out >= limit then break end
    take_of(of)
  end
end
return out
