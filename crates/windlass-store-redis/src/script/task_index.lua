-- Index entries of a task: a function of its row, so that no write can forget one.

-- Sorts as lists do: the newest first, by plan, by place.
local function place(row)
  return string.format('%015.0f %s %010.0f %s', MAX - row.createdAt, row.planId, row.position, row.id)
end

-- Where it waits to be handed out: asked for first, then claimed and not begun, then in its turn.
local function waits(row)
  local class
  if row.start ~= '' then
    class = 0
  elseif row.status == 'PENDING' then
    class = row.owner == '' and 2 or 1
  else
    return nil
  end
  return class, string.format('%015.0f %010.0f %s', row.readyAt, row.position, row.id)
end

local function leave(row)
  local class, member = waits(row)
  if class and row.owner == '' then
    redis.call('ZREM', $ready..row.planId, member)
  elseif class then
    local key = $claimed..row.planId .. ':' .. row.owner
    redis.call('ZREM', key, member)
    if redis.call('EXISTS', key) == 0 then redis.call('SREM', $claimers..row.planId, row.owner) end
  end
end

local function enter(row)
  local class, member = waits(row)
  if class and row.owner == '' then
    redis.call('ZADD', $ready..row.planId, class, member)
  elseif class then
    redis.call('ZADD', $claimed..row.planId .. ':' .. row.owner, class, member)
    redis.call('SADD', $claimers..row.planId, row.owner)
  end
end

-- Whether anything of a plan could be handed out, if its conductor lives.
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
end

-- Moves the entries of a task from what it was to what it is. Answers whether a plan's openness may have changed.
local function reindex(before, row)
  local moved = false
  if before.status ~= row.status then
    local member = place(row)
    redis.call('ZREM', $tasks..before.status, member)
    redis.call('ZADD', $tasks..row.status, 0, member)
    redis.call('HINCRBY', $tally..row.planId, before.status, -1)
    redis.call('HINCRBY', $tally..row.planId, row.status, 1)
  end
  if before.owner ~= row.owner then
    moved = true
    if before.owner ~= '' then redis.call('SREM', $owned..before.owner, row.id) end
    if row.owner ~= '' then redis.call('SADD', $owned..row.owner, row.id) end
    local slots = (row.owner ~= '' and 1 or 0) - (before.owner ~= '' and 1 or 0)
    if slots ~= 0 and redis.call('EXISTS', $plan..row.planId) == 1 then
      redis.call('HINCRBY', $plan..row.planId, 'slots', slots)
    end
  end
  local was, there = waits(before)
  local is, here = waits(row)
  if was ~= is or there ~= here or before.owner ~= row.owner then
    moved = true
    leave(before)
    enter(row)
  end
  return moved
end
