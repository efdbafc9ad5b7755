-- Writes what claimed occurrences came to, each with its child and its notes.
local function settle(id, fence, run, notes, child, of_child)
  local stored = load(id)
  if not stored then return {'NotFound'} end
  local held = stored.fence or '0'
  if held ~= fence then return {'Stale', fence, held} end
  if stored.status ~= 'PROCESSING' then return {'ok'} end
  run.fence = held ~= '0' and held or nil
  if run.status == 'PROCESSING' then run.owner, run.leaseUntil = stored.owner, stored.leaseUntil end
  if same(RUN, stored, run) then return {'ok'} end
  local set, gone = {}, {}
  for _, name in ipairs(RUN) do
    if run[name] ~= stored[name] then
      stored[name] = run[name]
      if run[name] then
        set[#set + 1] = name
        set[#set + 1] = run[name]
      else
        gone[#gone + 1] = name
      end
    end
  end
  redis.call('HSET', $trigger..id, 'version', s(stored.version + 1), unpack(set))
  if #gone > 0 then redis.call('HDEL', $trigger..id, unpack(gone)) end
  index(id, stored)
  tell(id, notes)
  if child ~= '' and redis.call('EXISTS', $trigger..child) == 0 then
    of_child.version = '1'
    store(child, of_child)
  end
  return {'ok'}
end

local out = {}
for i = 1, tonumber(nx()) do
  local id, fence = nx(), nx()
  local run = read_fields()
  local notes = read_notes()
  local child = nx()
  local of_child = child ~= '' and read_fields() or nil
  out[i] = settle(id, fence, run, notes, child, of_child)
end
return out
