-- Steps of owners from rows that they know, which are nearly all there are: a row that has this version, this operation
-- and these requests is as it was left, and the rest of it need not be read. Whatever else a step meets is left to the
-- script of commits: the answer is 0.
local call, argv = redis.call, args
local TASK, TENANT, HISTORY, CKPT, META = $task, $tenant, $task_history, $ckpt, $ckpt_meta
local out, stamp, bodies, gone, opens, frees, wakes = {}, s(now), {}, {}, {}, {}, false
-- So many arguments has every step, of which the first says how many there are in all, and so many more one whose task
-- moves; then come its events. What is set stands at the end: with its names if the task moves, which is seldom; otherwise
-- it is always the same.
local HEAD, MOVE = 13, 11

-- What lists have of a task follows it. Behind `m` stands what stays, what it was and what it is.
local function moves(task, m)
  local plan, place = argv[m + 1], argv[m + 2]
  local was = {id = task, planId = plan, place = place, status = argv[m + 3], owner = argv[m + 4], turn = argv[m + 5],
    start = argv[m + 6], control = argv[m + 7]}
  local is = {id = task, planId = plan, place = place, status = argv[m + 8], owner = argv[m + 9], turn = argv[m + 10],
    start = '', control = argv[m + 11]}
  if reindex(was, is) then opens[plan] = true end
  if was.owner ~= is.owner then frees[plan] = true end
end

local function put_checkpoint(at, task, fence)
  local version, n = argv[at + 9], #bodies
  if version == '-' then
    gone[#gone + 1] = CKPT .. task
    gone[#gone + 1] = META .. task
    return
  end
  bodies[n + 1], bodies[n + 2] = CKPT .. task, argv[at + 10]
  if argv[at + 11] == '=' then
    call('HSET', META .. task, 'version', version)
  else
    call('HSET', META .. task, 'version', version, 'instanceId', argv[at + 11], 'fence', fence)
  end
end

-- Whether the row is as it was left. A task that was begun has its tenant's fence until another begins, which marks the
-- operation then.
local function may_go_on(at, key)
  local r = call('HMGET', key, 'version', 'op', 'control')
  return r[1] == argv[at + 5] and r[2] == argv[at + 6] and r[3] == argv[at + 7]
end

-- Likewise of one that begins, which must still be this owner's; and whether the tenant's fence may become this one. If
-- so, it has begun.
local function has_begun(at, key, task, tenant, fence)
  local r = call('HMGET', key, 'version', 'op', 'control', 'owner')
  if r[1] ~= argv[at + 5] or r[2] ~= argv[at + 6] or r[3] ~= argv[at + 7] or r[4] ~= argv[at + HEAD + 4] then
    return false
  end
  local of = call('HMGET', TENANT .. tenant, 'fence', 'started')
  if less(fence, of[1] or '0') then return false end
  begin(tenant, task, fence, of[2])
  return true
end

at = 3
for i = 1, tonumber(argv[3]) do
  local task, tenant, fence, ends = argv[at + 2], argv[at + 3], argv[at + 4], at + argv[at + 1]
  local key, begins, moved = TASK .. task, argv[at + 12] == '1', argv[at + 13] == '1'
  local may
  if begins then may = has_begun(at, key, task, tenant, fence) else may = may_go_on(at, key) end
  if may then
    out[i] = 1
    local from = at + HEAD + (moved and MOVE or 0) + 1
    local sets = from + argv[from] + 1
    if sets > from + 1 and call('RPUSH', HISTORY .. task, unpack(argv, from + 1, sets - 1)) > 200 then
      call('LTRIM', HISTORY .. task, -200, -1)
    end
    if argv[at + 9] ~= '' then put_checkpoint(at, task, fence) end
    local op = argv[at + 8] .. ' ' .. stamp
    if moved then
      call('HSET', key, 'op', op, unpack(argv, sets, ends))
      moves(task, at + HEAD)
    else
      call('HSET', key, 'op', op, 'updatedAt', argv[sets], 'completed', argv[sets + 1], 'stage', argv[sets + 2],
        'done', argv[sets + 3], 'version', argv[sets + 4], 'seq', argv[sets + 5], 'checkpoint', argv[sets + 6])
    end
  else
    out[i] = 0
  end
  at = ends
end
if #bodies > 0 then call('MSET', unpack(bodies)) end
if #gone > 0 then call('DEL', unpack(gone)) end
write_index()
for plan in pairs(opens) do
  local open = judge_open(plan)
  -- A slot that nothing waits for is nobody's news.
  wakes = wakes or open and frees[plan]
end
if wakes then wake('state') end
return {stamp, out}
