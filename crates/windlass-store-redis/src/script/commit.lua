-- Takes steps, each whole or not at all.
local out, wakes = {}, false
for i = 1, tonumber(nx()) do
  local step = read_step()
  local w = world()
  local done = repeated(step, w) or judge(step, w)
  if not done then
    local woke
    done, woke = write(step, w)
    wakes = wakes or woke
  end
  out[i] = done
end
write_index()
for plan in pairs(opens) do
  local open = judge_open(plan)
  wakes = wakes or open and frees[plan]
end
if wakes then wake('state') end
return {s(now), out}
