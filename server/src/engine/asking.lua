-- Tells what is asked for at one instance, and hears what is asked for at the others.
--
-- KEYS: the hash with what instances have told. ARGV: the instance; what is asked for there; for how many milliseconds
-- that holds. Answer: what the others have told and still holds.
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local holds = tonumber(ARGV[3])
redis.call("HSET", KEYS[1], ARGV[1], string.format("%d %s", now + holds, ARGV[2]))
redis.call("PEXPIRE", KEYS[1], 2 * holds)
local told = redis.call("HGETALL", KEYS[1])
local others = {}
for at = 1, #told, 2 do
  local ends, asked = string.match(told[at + 1], "^(%d+) (.*)$")
  if tonumber(ends) < now then
    redis.call("HDEL", KEYS[1], told[at])
  elseif told[at] ~= ARGV[1] then
    others[#others + 1] = asked
  end
end
return others
