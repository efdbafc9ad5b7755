-- Leases of instances, each read once.
local known = {}
clears[#clears + 1] = function() known = {} end

-- Until when an instance's lease runs; 0 for one that is not known.
local function lease(instance)
  local till = known[instance]
  if not till then
    till = tonumber(redis.call('HGET', $instance..instance, 'until') or '0')
    known[instance] = till
  end
  return till
end

local function is_live(instance)
  return instance ~= '' and lease(instance) > now
end
