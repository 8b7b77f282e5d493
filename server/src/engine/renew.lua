-- Renews the leases that an instance still holds. One that was thought to be over counts again, since its call runs.
--
-- KEYS: a sorted set of leases. ARGV: how long a lease lasts, in ticks; the time or ""; the ids of leases.
local now
if ARGV[2] == "" then
  local time = redis.call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
else
  now = tonumber(ARGV[2])
end
local lasts = tonumber(ARGV[1])
for at = 3, #ARGV do redis.call("ZADD", KEYS[1], now + lasts, ARGV[at]) end
-- As usual.lua has it: LEASES_LIVE.
redis.call("PEXPIRE", KEYS[1], 3600000)
return #ARGV - 2
