-- Decides one call by all of its rates and caps at once: charges every one of them, or none.
--
-- The rules are those of crates/limits (cell.rs, cell/owing.rs, table/regroup.rs), whose proofs run against this script
-- too. Time is in whole ticks: microseconds of this server's clock, or of the caller's where ARGV[2] gives one. Numbers
-- stay numbers: `..` and tostring would round those of more than 14 digits.
--
-- KEYS: the tenant's hash; the server's, or the tenant's again; then for each cap the sorted set of its leases.
-- ARGV: "admit" or "look"; the time or ""; the cost; the id of the call's lease; how long it lasts; and packed with
--       MessagePack: the caps, {index, how many leases it allows} each, and the places of rates, those of the first key
--       before those of the second, {which key, the field, rates} each. A rate is {index, ordinal, 1 (bucket) or
--       2 (window), capacity, length of the window, ticks for each call (of a bucket), 1 if it only observes}.
--       Then the ids of leases that have ended.
-- Answer to "admit": {1, index of the nearest rate or -1, used, reset, observing rates that would have refused...}
--       or {0, caps that refuse, rates that refuse, (index, used) of those caps..., (index, used, wait) of those rates...,
--       observing rates that would have refused...}.
-- Answer to "look": used of each cap, in order; then (index, used, wait) of each rate.
--
-- A field holds the states of one place, a list packed with MessagePack. A state is a bucket,
--   {ordinal, 1, window, capacity, arrival, interval, debts},
-- or a window that keeps the time of each call, or that counts in sixtieths,
--   {ordinal, 2, window, capacity, entries, 0, debts},
--   {ordinal, 2, window, capacity, packed entries, 1, latest sixtieth, its calls, all calls, oldest sixtieth, debts}.
-- Entries are {time, calls, time, calls...}; debts are what changes of numbers cut off, {state, most} each.
local call, argv, keys = redis.call, ARGV, KEYS
local pack, unpacked = cmsgpack.pack, cmsgpack.unpack
local fmod, ceil = math.fmod, math.ceil
local BUCKET, SLIDING = 1, 2
-- Windows of up to so many calls keep the time of each; others count in sixtieths, of which 61 touch the window.
local EXACT, KEPT = 100, 61
-- Milliseconds for which a set of leases is kept that nobody looks at.
local LEASES_LIVE = 3600000

local now
if argv[2] == "" then
  local time = call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
else
  now = tonumber(argv[2])
end
local is_look, cost = argv[1] == "look", tonumber(argv[3])
local caps, places = unpack(unpacked(argv[6]))

-- The packed states of each place.
local read, from = {}, 1
while places[from] do
  local key, fields, to = places[from][1], {}, from
  while places[to] and places[to][1] == key do
    fields[#fields + 1] = places[to][2]
    to = to + 1
  end
  local found = call("HMGET", keys[key], unpack(fields))
  for at = from, to - 1 do read[at] = found[at - from + 1] end
  from = to
end

-- Leases are over when they have ended, and when nobody has renewed them; the latter matters only where all are taken.
local is_full = false
for at, cap in ipairs(caps) do
  local key = keys[2 + at]
  if argv[7] then call("ZREM", key, unpack(argv, 7)) end
  cap.used = call("ZCARD", key)
  if is_look or cap.used >= cap[2] then
    call("ZREMRANGEBYSCORE", key, "-inf", now)
    cap.used = call("ZCARD", key)
  end
  is_full = is_full or cap.used >= cap[2]
end

-- A set of leases is gone with the last of them. It lives much longer than a lease, so that its life need not be prolonged
-- with each: renew.lua does that, and whoever makes it anew.
local function take_leases()
  local ends = now + tonumber(argv[5])
  for at, cap in ipairs(caps) do
    call("ZADD", keys[2 + at], ends, argv[4])
    if cap.used == 0 then call("PEXPIRE", keys[2 + at], LEASES_LIVE) end
  end
end

-- Lets a hash live as long as anything in it.
local function keep(key, life)
  local ms = ceil(life / 1000) + 1000
  if call("PTTL", key) < ms then call("PEXPIRE", key, 2 * ms) end
end

-- Nearly every call passes by states that have its numbers and whose windows count in the sixtieth that is their latest.
-- It is decided here; what is unusual is left to the rest, which decides the same.
local function decide_usual()
  local least, nearest, used, reset = nil, -1, 0, 0
  local lives = {0, 0}
  for at, place in ipairs(places) do
    local states, rates = read[at] and unpacked(read[at]), place[3]
    if not states or #states ~= #rates then return end
    local life = lives[place[1]]
    for which, rate in ipairs(rates) do
      local state, capacity, window = states[which], rate[4], rate[5]
      if state[1] ~= rate[2] or state[2] ~= rate[3] or state[3] ~= window then return end
      local left, used_then, reset_then
      if state[2] == BUCKET then
        local interval, arrival = rate[6], state[5]
        local depth, rest = capacity * interval, arrival - now
        if rest < 0 then rest = 0 end
        local after = rest + cost * interval
        if state[6] ~= interval or state[7] or rest > depth or after > depth then return end
        state[4], state[5] = capacity, now + after
        local room, part = depth - after, fmod(after, interval)
        left = (room - fmod(room, interval)) / interval
        used_then, reset_then = (after - part) / interval, part
        if part > 0 then used_then = used_then + 1 else reset_then = interval end
        if after > life then life = after end
      else
        local part = fmod(window, 60)
        local width = (window - part) / 60
        if part > 0 then width = width + 1 end
        local after = state[9] and state[9] + cost
        if state[6] ~= 1 or capacity <= EXACT or state[11] or after > capacity
          or (now - fmod(now, width)) / width ~= state[7] then return end
        state[4], state[8], state[9] = capacity, state[8] + cost, after
        left, used_then, reset_then = capacity - after, after, (state[10] + KEPT) * width - now
        if reset_then > window then reset_then = window end
        if window + 2 * width > life then life = window + 2 * width end
      end
      if rate[7] == 0 and (not least or left < least) then
        least, nearest, used, reset = left, rate[1], used_then, reset_then
      end
    end
    lives[place[1]] = life
    read[at] = pack(states)
  end
  local from = 1
  while places[from] do
    local key, writes, to = places[from][1], {}, from
    while places[to] and places[to][1] == key do
      writes[#writes + 1], writes[#writes + 2] = places[to][2], read[to]
      to = to + 1
    end
    call("HSET", keys[key], unpack(writes))
    keep(keys[key], lives[key])
    from = to
  end
  take_leases()
  return {1, nearest, used, reset}
end

if not is_look and not is_full then
  local before = read
  read = {}
  for at = 1, #places do read[at] = before[at] end
  local answer = decide_usual()
  if answer then return answer end
  read = before
end

