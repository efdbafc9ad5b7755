-- Boundaries, the commits there are most of: a task that runs and goes on running, whose row its owner left with this
-- version and this operation, under the fence that its tenant has. Whatever else a step meets is left to the script of
-- commits: the answer is 0.
local call, argv = redis.call, args
local TASK, TENANT, HISTORY, CKPT, META = $task, $tenant, $task_history, $ckpt, $ckpt_meta
local out, stamp, bodies = {}, s(now), {}
at = 3
for i = 1, tonumber(argv[3]) do
  local task, fence, op = argv[at + 1], argv[at + 3], argv[at + 6]
  local key, checkpoint = TASK .. task, argv[at + 12]
  local from = checkpoint == '' and at + 13 or at + 15
  local events = tonumber(argv[from])
  local r = call('HMGET', key, 'version', 'op')
  out[i] = 0
  if r[1] == argv[at + 4] and r[2] == argv[at + 5] and call('HGET', TENANT .. argv[at + 2], 'fence') == fence then
    out[i] = 1
    if events > 0 and call('RPUSH', HISTORY .. task, unpack(argv, from + 1, from + events)) > 200 then
      call('LTRIM', HISTORY .. task, -200, -1)
    end
    op = op .. ' ' .. argv[at + 7] .. ' ' .. stamp
    if checkpoint == '' then
      call('HSET', key, 'updatedAt', argv[at + 10], 'detail', argv[at + 11], 'version', argv[at + 8], 'seq', argv[at + 9],
        'op', op)
    else
      local by, n = argv[at + 14], #bodies
      bodies[n + 1], bodies[n + 2] = CKPT .. task, argv[at + 13]
      if by == '=' then
        call('HSET', META .. task, 'version', checkpoint)
      else
        call('HSET', META .. task, 'version', checkpoint, 'instanceId', by, 'fence', fence)
      end
      call('HSET', key, 'updatedAt', argv[at + 10], 'detail', argv[at + 11], 'version', argv[at + 8], 'seq', argv[at + 9],
        'op', op, 'checkpoint', checkpoint)
    end
  end
  at = from + events
end
if #bodies > 0 then call('MSET', unpack(bodies)) end
return {stamp, out}
