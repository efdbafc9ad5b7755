-- Writes triggers as people say, each whole or not at all.
local function save(id, version, new, notes)
  local stored = load(id)
  if not stored and version ~= '0' then return {'NotFound'} end
  if stored then
    if version == '0' then return {'Exists'} end
    if version ~= stored.version then return {'Version', version, stored.version} end
    local busy = stored.status == 'PROCESSING' and tonumber(stored.leaseUntil or '0') > now
    if busy and not (same(RUN, stored, new) and same(SPEC, stored, new)) then
      return {'Owned', stored.owner or '', stored.leaseUntil}
    end
  end
  -- Taken away from an owner who was not heard of again: what that one says later is stale.
  local taken = stored and stored.status == 'PROCESSING' and new.status ~= 'PROCESSING'
  new.fence = taken and s(draw(1)) or stored and stored.fence or nil
  new.version = s((stored and tonumber(stored.version) or 0) + 1)
  store(id, new)
  tell(id, notes)
  return {'ok', new.version}
end

local out = {}
for i = 1, tonumber(nx()) do
  local id, version = nx(), nx()
  local new = read_fields()
  out[i] = save(id, version, new, read_notes())
end
wake('triggers')
return out
