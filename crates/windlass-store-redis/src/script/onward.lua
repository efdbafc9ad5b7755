-- Steps of owners from rows that they know, which are nearly all there are: a row that has this version, this operation
-- and these requests is as it was left, and the rest of it need not be read. Whatever else a step meets is left to the
-- script of commits: the answer is 0.
local call, argv = redis.call, args
local TASK, TENANT, LATEST, HISTORY, CKPT, META = $task, $tenant, $tenant_task, $task_history, $ckpt, $ckpt_meta
local out, stamp, bodies, gone, opens, frees, wakes = {}, s(now), {}, {}, {}, {}, false
-- So many arguments has every step, of which the first says how many there are in all, and so many more one whose task
-- moves; then come its events. What is set stands at the end: with its names if the task moves, which is seldom; otherwise
-- it is always the same.
local HEAD, MOVE = 13, 12
-- Where each begins, and its tenant's latest task: as it was, and by tenant as it has become.
local places, latest, began = {}, {}, {}

-- What lists have of a task follows it. Behind `m` stands what stays, what it was and what it is.
local function moves(task, m)
  local plan, position, created = argv[m + 1], argv[m + 2], argv[m + 3]
  local was = {id = task, planId = plan, position = position, createdAt = created, status = argv[m + 4],
    owner = argv[m + 5], readyAt = argv[m + 6], start = argv[m + 7], control = argv[m + 8]}
  local is = {id = task, planId = plan, position = position, createdAt = created, status = argv[m + 9],
    owner = argv[m + 10], readyAt = argv[m + 11], start = '', control = argv[m + 12]}
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

-- Whether the row is as it was left, and the tenant's fence is this one or may become it. A task that was begun has its
-- tenant's fence until another begins; one that begins must still be this owner's.
local function may(at, task, tenant, begins, known)
  local version, op, control = argv[at + 5], argv[at + 6], argv[at + 7]
  if not begins then
    local r = call('HMGET', TASK .. task, 'version', 'op', 'control')
    return r[1] == version and r[2] == op and r[3] == control and (began[tenant] or known) == task
  end
  local r = call('HMGET', TASK .. task, 'version', 'op', 'control', 'owner')
  if r[1] ~= version or (r[2] or '') ~= op or r[3] ~= control or r[4] ~= argv[at + HEAD + 5] then return false end
  return not less(argv[at + 4], call('HGET', TENANT .. tenant, 'fence') or '0')
end

at = 3
for i = 1, tonumber(argv[3]) do
  places[i], latest[i] = at, LATEST .. argv[at + 3]
  at = at + argv[at + 1]
end
latest = call('MGET', unpack(latest))
for i = 1, #places do
  local at = places[i]
  local task, tenant, fence = argv[at + 2], argv[at + 3], argv[at + 4]
  local begins, moved = argv[at + 12] == '1', argv[at + 13] == '1'
  if may(at, task, tenant, begins, latest[i]) then
    out[i] = 1
    if begins then
      began[tenant] = task
      call('SET', LATEST .. tenant, task)
      call('HSET', TENANT .. tenant, 'fence', fence, 'started', task)
    end
    local from = at + HEAD + (moved and MOVE or 0) + 1
    local sets = from + argv[from] + 1
    if sets > from + 1 and call('RPUSH', HISTORY .. task, unpack(argv, from + 1, sets - 1)) > 200 then
      call('LTRIM', HISTORY .. task, -200, -1)
    end
    if argv[at + 9] ~= '' then put_checkpoint(at, task, fence) end
    local op = argv[at + 8] .. ' ' .. stamp
    if moved then
      call('HSET', TASK .. task, 'op', op, unpack(argv, sets, at + argv[at + 1]))
      moves(task, at + HEAD)
    else
      call('HSET', TASK .. task, 'op', op, 'updatedAt', argv[sets], 'detail', argv[sets + 1], 'version', argv[sets + 2],
        'seq', argv[sets + 3], 'checkpoint', argv[sets + 4])
    end
  else
    out[i] = 0
  end
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
