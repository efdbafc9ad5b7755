-- Index entries of a task: a function of its row, so that no write can forget one.

-- Sorts as lists do: the newest first, by plan, by place. Whoever calls may have it already.
local function place(row)
  row.place = row.place or string.format('%015.0f %s %010.0f %s', MAX - row.createdAt, row.planId, row.position, row.id)
  return row.place
end

-- How it waits to be handed out: asked for first, then claimed and not begun, then in its turn.
local function class_of(row)
  if row.start ~= '' then return 0 end
  if row.status ~= 'PENDING' then return nil end
  return row.owner == '' and 2 or 1
end

-- Its turn among those; likewise.
local function turn(row)
  row.turn = row.turn or string.format('%015.0f %010.0f %s', row.readyAt, row.position, row.id)
  return row.turn
end

-- What an instance knows of its tasks is not how they are any more: somebody else has written one. It is told where it would
-- write without looking.
local function break_seal(instance)
  if instance ~= '' then redis.call('DEL', $seal..instance) end
end

-- A task begins under its tenant's highest fence: it is the tenant's latest now, and the one that was started before it is
-- overtaken. Its owner, who does not know that, meets the mark at the end of its last operation.
local function begin(tenant, task, fence, started)
  redis.call('SET', $tenant_task..tenant, task)
  redis.call('HSET', $tenant..tenant, 'fence', fence, 'started', task)
  if started == task or (started or '') == '' then return end
  local of = redis.call('HMGET', $task..started, 'op', 'owner')
  local op = of[1] or ''
  if op ~= '' and op:sub(-1) ~= '!' then
    redis.call('HSET', $task..started, 'op', op .. '!')
    break_seal(of[2] or '')
  end
end

-- What becomes of entries and counts is written at the end of a script, all of a key together: the score of an entry of
-- a sorted set, `true` for one of a set, `false` for one that goes.
local sorted, plain, counts, slot_sums, claims
local function clear_index()
  sorted, plain, counts, slot_sums, claims = {}, {}, {}, {}, {}
end
clears[#clears + 1] = clear_index
clear_index()

local function entry(lists, key, member, value)
  local of = lists[key]
  if not of then
    of = {}
    lists[key] = of
  end
  of[member] = value
end

local function count(plan, status, n)
  local key = $tally..plan
  local of = counts[key]
  entry(counts, key, status, (of and of[status] or 0) + n)
end

local function put_waits(row, class, there)
  if not class then return end
  local member = turn(row)
  if row.owner == '' then
    entry(sorted, $ready..row.planId, member, there and class)
  else
    local key = $claimed..row.planId .. ':' .. row.owner
    entry(sorted, key, member, there and class)
    claims[key] = {row.planId, row.owner}
  end
end

local function put_owner(row, there)
  if row.owner == '' then return end
  entry(plain, $owned..row.owner, row.id, there)
  slot_sums[row.planId] = (slot_sums[row.planId] or 0) + (there and 1 or -1)
end

-- What somebody wants of a task stands with its owner, who need not look at all it owns.
local function put_asked(row, there)
  if row.owner ~= '' and row.control ~= '' then entry(plain, $asked..row.owner, row.id, there) end
end

-- Writes the entries of one key.
local function write_entries(key, list, add, remove, scored)
  local come, go = {}, {}
  for member, value in pairs(list) do
    if not value then
      go[#go + 1] = member
    else
      if scored then come[#come + 1] = value end
      come[#come + 1] = member
    end
  end
  for i = 1, #go, 4000 do redis.call(remove, key, unpack(go, i, math.min(i + 3999, #go))) end
  for i = 1, #come, 4000 do redis.call(add, key, unpack(come, i, math.min(i + 3999, #come))) end
end

local function write_index()
  for key, list in pairs(sorted) do write_entries(key, list, 'ZADD', 'ZREM', true) end
  for key, list in pairs(plain) do write_entries(key, list, 'SADD', 'SREM', false) end
  for key, list in pairs(counts) do
    for status, n in pairs(list) do
      if n ~= 0 then redis.call('HINCRBY', key, status, n) end
    end
  end
  for plan, n in pairs(slot_sums) do
    if n ~= 0 and redis.call('EXISTS', $plan..plan) == 1 then redis.call('HINCRBY', $plan..plan, 'slots', n) end
  end
  for key, of in pairs(claims) do
    redis.call(redis.call('EXISTS', key) == 1 and 'SADD' or 'SREM', $claimers..of[1], of[2])
  end
  clear_index()
end

-- Whether anything of a plan could be handed out, if its conductor lives: written down, and answered.
local function judge_open(plan)
  local of = redis.call('HMGET', $plan..plan, 'status', 'slots', 'maxConcurrency')
  local free = of[1] == 'RUNNING' and tonumber(of[2] or '0') < tonumber(of[3])
  local open = free and redis.call('EXISTS', $ready..plan) == 1
  open = open or (of[1] == 'RUNNING' and redis.call('EXISTS', $claimers..plan) == 1)
  if open then
    redis.call('ZADD', $open, 0, plan)
  else
    redis.call('ZREM', $open, plan)
  end
  return open
end

-- Moves the entries of a task from what it was to what it is. Answers whether a plan's openness may have changed.
local function reindex(before, row)
  local moved = false
  if before.status ~= row.status then
    local member = place(row)
    entry(sorted, $tasks..before.status, member, false)
    entry(sorted, $tasks..row.status, member, 0)
    count(row.planId, before.status, -1)
    count(row.planId, row.status, 1)
  end
  if before.owner ~= row.owner then
    moved = true
    put_owner(before, false)
    put_owner(row, true)
  end
  if before.owner ~= row.owner or before.control ~= row.control then
    put_asked(before, false)
    put_asked(row, true)
  end
  local was, is = class_of(before), class_of(row)
  if was ~= is or before.owner ~= row.owner or was and turn(row) ~= turn(before) then
    moved = true
    put_waits(before, was, false)
    put_waits(row, is, true)
  end
  return moved
end
