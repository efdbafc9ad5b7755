-- Makes tasks an instance's: what is ready, or exactly those that are named.
local MOVES = {'owner', 'status', 'start', 'readyAt', 'position', 'planId', 'createdAt', 'version', 'control'}
local instance, plan, limit = nx(), nx(), tonumber(nx())
-- What of a row is answered, without names: the caller has them. All of it is read at once.
local names, nth = {}, {}
for i = 1, tonumber(nx()) do
  names[i] = nx()
  nth[names[i]] = i
end
local named = tonumber(nx())

local function load_task(id)
  local all = redis.call('HMGET', $task..id, unpack(names))
  if not all[nth.taskId] then return nil end
  local row = {id = id, all = all}
  for i = 1, #MOVES do row[MOVES[i]] = all[nth[MOVES[i]]] or '' end
  return row
end

local function own(row)
  local was = setmetatable({owner = row.owner}, {__index = row})
  row.owner, row.version = instance, s(tonumber(row.version) + 1)
  row.all[nth.owner], row.all[nth.version] = row.owner, row.version
  redis.call('HSET', $task..row.id, 'owner', row.owner, 'version', row.version)
  reindex(was, row)
  break_seal(was.owner)
  return {'ok', row.all}
end

local function take_named(id)
  local row = load_task(id)
  if not row then return {'NotFound', 'task ' .. id} end
  if row.owner == instance then
    -- Whoever asks does not know what became of it, and something may be on its way.
    break_seal(instance)
    return {'ok', row.all}, row.planId
  end
  if is_live(row.owner) then return {'Owned', row.owner, lease(row.owner)} end
  local runs = row.status == 'PENDING' or row.status == 'RUNNING' or row.status == 'ROLLING_BACK'
  if row.start == '' and not runs then return {'State', row.status, 'take', 0} end
  return own(row), row.planId
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
    local of
    out[i], of = take_named(nx())
    if of then touched[of] = true end
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
