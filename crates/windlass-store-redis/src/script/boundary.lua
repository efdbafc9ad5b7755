-- Boundaries, the commits there are most of: a task that runs and goes on running, under the fence and the owner that the
-- store has, of which nobody wants anything. Whatever else a step is, is left to the script of commits: the answer is 0.
local out, stamp = {}, s(now)
for i = 1, tonumber(nx()) do
  local task, tenant, plan, position, created, op, digest, instance = nx(), nx(), nx(), nx(), nx(), nx(), nx(), nx()
  local fence, status, ready, started, updated, ended, detail = nx(), nx(), nx(), nx(), nx(), nx(), nx()
  local body, version, by, tails = nx(), nx(), nx(), {}
  for e = 1, tonumber(nx()) do tails[e] = nx() end
  local r = redis.call('HMGET', $task..task, 'status', 'owner', 'fence', 'tenantId', 'planId', 'position', 'createdAt',
    'readyAt', 'control', 'op', 'version', 'seq', 'checkpoint')
  out[i] = 0
  if r[1] == status and r[2] == instance and r[3] == fence and r[4] == tenant and r[5] == plan and r[6] == position
    and r[7] == created and r[8] == ready and r[9] == '' and r[10] and r[10]:find(op .. ' ', 1, true) ~= 1
    and (body == '' or tonumber(version) == r[13] + 1)
    and redis.call('HGET', $tenant..tenant, 'fence') == fence then
    local seq = tonumber(r[12])
    if #tails > 0 then
      for e = 1, #tails do tails[e] = '{"seq":' .. seq + e .. tails[e] end
      seq = seq + #tails
      local length = redis.call('RPUSH', $task_history..task, unpack(tails))
      if length > 200 then redis.call('LTRIM', $task_history..task, -200, -1) end
    end
    local checkpoint = r[13]
    if body ~= '' then
      checkpoint = version
      redis.call('SET', $ckpt..task, body)
      redis.call('HSET', $ckpt_meta..task, 'version', version, 'instanceId', by, 'fence', fence)
    end
    redis.call('HSET', $task..task, 'startedAt', started, 'updatedAt', updated, 'endedAt', ended, 'detail', detail,
      'version', r[11] + 1, 'seq', seq, 'checkpoint', checkpoint, 'op', op .. ' ' .. digest .. ' ' .. stamp)
    out[i] = {r[11] + 1, seq}
  end
end
return {stamp, out}
