-- Removes triggers with their notes.
local out = {}
for i = 1, tonumber(nx()) do out[i] = remove(nx()) end
return out
