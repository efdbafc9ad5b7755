-- Tenants that are held or frozen now, by id, after a given one; one more than wanted says that there are more.
local after, limit = nx(), tonumber(nx())
local out, from = {}, after == '' and '-' or '(' .. after
while #out < limit do
  local some = redis.call('ZRANGEBYLEX', $lock_index, from, '+', 'LIMIT', 0, limit)
  for _, tenant in ipairs(some) do
    local of = tenant_of(tenant)
    if #out < limit and (of[1] or of[2]) then out[#out + 1] = {tenant, of} end
  end
  if #some < limit then break end
  from = '(' .. some[#some]
end
return out
