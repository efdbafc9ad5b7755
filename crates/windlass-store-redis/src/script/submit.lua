-- Takes submissions, each group whole or not at all, as if one after another.
local groups, ids = {}, {}
for g = 1, tonumber(nx()) do
  local group = {}
  for i = 1, tonumber(nx()) do
    local new = {id = nx(), queue = nx(), tenant = nx(), priority = nx(), digest = nx(), key = nx(), when = nx(),
      ms = tonumber(nx()), rest = nx(), payload = nx()}
    group[i] = new
    ids[#ids + 1] = new.id
  end
  groups[g] = group
end
for from = 1, #ids, 1000 do
  local keys = {}
  for i = from, math.min(from + 999, #ids) do keys[#keys + 1] = $job..ids[i] .. ':meta' end
  for i, meta in ipairs(redis.call('MGET', unpack(keys))) do
    local id = ids[from + i - 1]
    cache[id] = meta
  end
end
coming_n = #ids

local out = {}
for g, group in ipairs(groups) do
  out[g] = judge(group)
  if out[g][1] == 'ok' then
    for _, new in ipairs(group) do
      if new.comes then accept(new) end
    end
    count_group(group)
  end
end
finish()
return out
