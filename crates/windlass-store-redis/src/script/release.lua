-- Gives locks back, if task and fence still hold them.
local out = {}
for i = 1, tonumber(nx()) do
  local tenant, task, fence = nx(), nx(), nx()
  out[i] = 0
  if still(tenant, task, fence) then
    forget(tenant)
    out[i] = 1
  end
end
wake('locks')
return out
