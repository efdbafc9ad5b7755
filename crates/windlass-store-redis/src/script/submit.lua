-- Takes submissions, each group whole or not at all, as if one after another. What jobs have in common comes once, for a
-- run of them; the rest is used where it stands: id, end of the record, payload and, if the run has them, key.
local groups, metas = {}, {}
for g = 1, tonumber(nx()) do
  local runs = {}
  for r = 1, tonumber(nx()) do
    local run = {queue = nx(), tenant = nx(), priority = nx(), when = nx(), ms = tonumber(nx()), width = tonumber(nx()),
      n = tonumber(nx()), before = #metas}
    run.first = at + 1
    for i = 1, run.n do
      metas[run.before + i] = JOB .. args[at + 1] .. ':meta'
      at = at + run.width
    end
    runs[r] = run
  end
  groups[g] = runs
end
coming_n = #metas
for from = 1, coming_n, 4000 do
  some_are_there = some_are_there or redis.call('EXISTS', unpack(metas, from, math.min(from + 3999, coming_n))) > 0
end
if some_are_there then
  local ids = {}
  for i, key in ipairs(metas) do ids[i] = key:sub(#JOB + 1, -6) end
  preload(ids)
end

local out = {}
for g, runs in ipairs(groups) do
  local no, old = judge(runs)
  local answer = no or {'ok'}
  if not no then
    for _, run in ipairs(runs) do accept(run, metas, old) end
    for i, id in pairs(old) do
      answer[#answer + 1] = i - runs[1].before
      answer[#answer + 1] = id
    end
  end
  out[g] = answer
end
finish()
return out
