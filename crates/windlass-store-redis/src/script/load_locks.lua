-- Tenants as the lock port sees them.
local out = {}
for i = 1, tonumber(nx()) do out[i] = tenant_of(nx()) end
return out
