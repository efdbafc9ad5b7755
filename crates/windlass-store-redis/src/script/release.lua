-- Gives locks back, if task and fence still hold them.
local out, gone, is_gone = {}, {}, {}
for i = 1, tonumber(nx()) do
  local tenant, task, fence = nx(), nx(), nx()
  out[i] = 0
  if not is_gone[tenant] and still(tenant, task, fence) then
    gone[#gone + 1], is_gone[tenant] = tenant, true
    out[i] = 1
  end
end
forget(gone)
wake('locks')
return out
