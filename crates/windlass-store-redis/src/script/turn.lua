-- Complete, heartbeat and claim, for each worker in one step: what was said first, of all of them, then the claims.
local turns, ids = {}, {}
for t = 1, tonumber(nx()) do
  local turn = {worker = nx(), lease = tonumber(nx()), settle = {}, beat = {}, want = {}}
  turn.held = ',"' .. turn.worker .. '",'
  -- What has ended is used where it stands: id, fence, how, and what more there is to say.
  for i = 1, tonumber(nx()) do
    local p = at + 1
    turn.settle[i] = p
    ids[#ids + 1] = args[p]
    at = at + 3 + (MORE_SAID[args[p + 2]] or 0)
  end
  for i = 1, tonumber(nx()) do
    turn.beat[i] = {id = nx(), fence = nx()}
    ids[#ids + 1] = turn.beat[i].id
  end
  for i = 1, tonumber(nx()) do
    local want = {queue = nx(), n = tonumber(nx())}
    turn.want[i] = want
    wanted_all = wanted_all + want.n
  end
  turns[t] = turn
end
preload(ids)

local out = {}
for t, turn in ipairs(turns) do
  local settled, beaten = {}, {}
  for i, p in ipairs(turn.settle) do settled[i] = settle(p, turn) end
  for i, said in ipairs(turn.beat) do beaten[i] = beat(said, turn.lease) end
  out[t] = {settled, beaten, {}, '', s(now)}
end
flush()
for t, turn in ipairs(turns) do
  local jobs, wanted = {}, 0
  turn.till = s(after_now(turn.lease))
  turn.holds = turn.held .. turn.till
  for _, want in ipairs(turn.want) do
    wanted = wanted + want.n
    claim(want.queue, want.n, turn, jobs)
  end
  out[t][3] = jobs
  if given_in(jobs) < wanted then out[t][4] = next_of(turn) end
end
finish()
return out
