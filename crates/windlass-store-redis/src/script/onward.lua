-- Steps of owners from rows that they know, which are nearly all there are: a row that has this version, this operation,
-- this owner and these requests is as it was left, and the rest of it need not be read. Whatever else a step meets is left
-- to the script of commits: the answer is 0.
local call, argv = redis.call, args
local TASK, TENANT, HISTORY, CKPT, META = $task, $tenant, $task_history, $ckpt, $ckpt_meta
local out, stamp, bodies, gone, opens, frees, wakes = {}, s(now), {}, {}, {}, {}, false
-- So many arguments has every step, and so many more one whose task moves; then come its events. What is set stands at the
-- end: with its names if the task moves, which is seldom; otherwise it is always the same.
local HEAD, MOVE, SAME = 13, 12, 5

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

local function put_checkpoint(task, fence)
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

at = 3
for i = 1, tonumber(argv[3]) do
  local task, tenant, fence = argv[at + 1], argv[at + 2], argv[at + 3]
  local key, begins, moved = TASK .. task, argv[at + 12] == '1', argv[at + 13] == '1'
  local from = at + HEAD + (moved and MOVE or 0) + 1
  local events = tonumber(argv[from])
  local sets = from + events + 1
  local till = moved and sets + 2 * argv[sets] or sets + SAME - 1
  local r = call('HMGET', key, 'version', 'op', 'owner', 'control')
  local same = r[1] == argv[at + 4] and (r[2] or '') == argv[at + 5] and r[3] == argv[at + 6] and r[4] == argv[at + 7]
  local stored = same and (call('HGET', TENANT .. tenant, 'fence') or '0')
  if same and (stored == fence or begins and less(stored, fence)) then
    out[i] = 1
    if begins then
      call('SET', $tenant_task..tenant, task)
      call('HSET', TENANT .. tenant, 'fence', fence, 'started', task)
    end
    if events > 0 and call('RPUSH', HISTORY .. task, unpack(argv, from + 1, from + events)) > 200 then
      call('LTRIM', HISTORY .. task, -200, -1)
    end
    if argv[at + 9] ~= '' then put_checkpoint(task, fence) end
    local op = argv[at + 8] .. ' ' .. stamp
    if moved then
      call('HSET', key, 'op', op, unpack(argv, sets + 1, till))
      moves(task, at + HEAD)
    else
      call('HSET', key, 'op', op, 'updatedAt', argv[sets], 'detail', argv[sets + 1], 'version', argv[sets + 2],
        'seq', argv[sets + 3], 'checkpoint', argv[sets + 4])
    end
  else
    out[i] = 0
  end
  at = till
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
