-- Complete, heartbeat and claim, for each worker in one step: what was said first, of all of them, then the claims.
local turns, ids = {}, {}
for t = 1, tonumber(nx()) do
  local turn = {worker = nx(), lease = tonumber(nx()), done = {}, settle = {}, beat = {}, want = {}}
  -- What has ended is used where it stands. What was handed out by the caller and is done: entry and result of each.
  for i = 1, tonumber(nx()) do
    turn.done[i] = {queue = nx(), latest = tonumber(nx()), n = tonumber(nx()), first = at + 1}
    at = at + 2 * turn.done[i].n
  end
  -- Of all else: id, fence, how, and what more there is to say.
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
  local not_done, settled, beaten, number = {}, {}, {}, 0
  for _, done in ipairs(turn.done) do
    complete(done, number, not_done)
    number = number + done.n
  end
  for i, p in ipairs(turn.settle) do settled[i] = settle(args[p], args[p + 1], args[p + 2], p + 2) end
  for i, said in ipairs(turn.beat) do beaten[i] = beat(said, turn.lease) end
  out[t] = {not_done, settled, beaten, {}, '', s(now)}
end
flush()
for t, turn in ipairs(turns) do
  local jobs, wanted = {}, 0
  turn.till = s(after_now(turn.lease))
  turn.holds = ',"' .. turn.worker .. '",' .. turn.till
  for _, want in ipairs(turn.want) do
    wanted = wanted + want.n
    claim(want.queue, want.n, turn, jobs)
  end
  out[t][4] = jobs
  if given_in(jobs) < wanted then out[t][5] = next_of(turn) end
end
finish()
return out
