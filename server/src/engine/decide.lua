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

-- Leases are over when they have ended, and when nobody has renewed them.
local is_full = false
for at, cap in ipairs(caps) do
  local key = keys[2 + at]
  if argv[7] then call("ZREM", key, unpack(argv, 7)) end
  call("ZREMRANGEBYSCORE", key, "-inf", now)
  cap.used = call("ZCARD", key)
  is_full = is_full or cap.used >= cap[2]
end

local function take_leases()
  local lasts = tonumber(argv[5])
  for at = 1, #caps do
    call("ZADD", keys[2 + at], now + lasts, argv[4])
    call("PEXPIRE", keys[2 + at], ceil(lasts / 1000) + 1000)
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

local ORDINAL, KIND, WINDOW, CAPACITY, ARRIVAL, INTERVAL, ENTRIES, COARSE, DEBTS = 1, 2, 3, 4, 5, 6, 5, 6, 7
local MOST_DEBTS, MOST_ENTRIES, OBSERVED = 8, 128, 8
local max, min = math.max, math.min

-- Whole quotients; a plain division may round across a whole number.
local function divide(a, b) return (a - fmod(a, b)) / b end
local function divide_up(a, b)
  local rest = fmod(a, b)
  return (a - rest) / b + (rest > 0 and 1 or 0)
end

local function width(state) return divide_up(state[WINDOW], 60) end

-- What an entry of a window at the present time is called.
local function stamp(state)
  if state[COARSE] == 1 then return divide(now, width(state)) end
  return now
end

local function leaves(state, time)
  if state[COARSE] == 1 then return (time + KEPT) * width(state) end
  return time + state[WINDOW]
end

-- Where the entries begin that are still in the window, and how many calls they are.
local function live(state)
  local entries, calls = state[ENTRIES], 0
  local oldest
  if state[COARSE] == 1 then oldest = divide(now, width(state)) - KEPT else oldest = now - state[WINDOW] end
  local first = 1
  while entries[first] and entries[first] <= oldest do first = first + 2 end
  for at = first + 1, #entries, 2 do calls = calls + entries[at] end
  return first, calls
end

local function backlog(bucket) return max(bucket[ARRIVAL] - now, 0) end

local function used(state)
  if state[KIND] == BUCKET then return divide_up(backlog(state), state[INTERVAL]) end
  local _, calls = live(state)
  return calls
end

-- When the first of what is in use comes back.
local function reset(state)
  if state[KIND] == BUCKET then
    local rest = backlog(state)
    return rest - max(divide_up(rest, state[INTERVAL]) - 1, 0) * state[INTERVAL]
  end
  local first = live(state)
  local time = state[ENTRIES][first]
  return time and leaves(state, time) - now or 0
end

local function is_fresh(state)
  if state[KIND] == BUCKET then
    if state[ARRIVAL] > now then return false end
  else
    local _, calls = live(state)
    if calls > 0 then return false end
  end
  for _, debt in ipairs(state[DEBTS] or {}) do
    if not is_fresh(debt[1]) then return false end
  end
  return true
end

-- The server's clock may be set back: nothing is in use for longer than if it had been used just now. Says whether
-- anything had to change, which has to be remembered: from now on it counts by the new clock.
local function settle(state, most)
  local changed = false
  if state[KIND] == BUCKET then
    changed = state[ARRIVAL] > now + most
    state[ARRIVAL] = min(state[ARRIVAL], now + most)
  else
    local entries, latest = state[ENTRIES], stamp(state)
    local count = #entries
    if count > 0 and entries[count - 1] > latest then
      local kept, calls = {}, 0
      for at = 1, count, 2 do
        if entries[at] < latest then
          kept[#kept + 1], kept[#kept + 2] = entries[at], entries[at + 1]
        else
          calls = calls + entries[at + 1]
        end
      end
      kept[#kept + 1], kept[#kept + 2] = latest, calls
      state[ENTRIES], changed = kept, true
    end
  end
  for _, debt in ipairs(state[DEBTS] or {}) do changed = settle(debt[1], debt[2]) or changed end
  return changed
end

local function fresh(rate)
  if rate.kind == BUCKET then return {rate.ordinal, BUCKET, rate.window, rate.capacity, 0, rate.interval} end
  return {rate.ordinal, SLIDING, rate.window, rate.capacity, {}, rate.capacity > EXACT and 1 or 0}
end

-- Adds calls to a window at a time no earlier than its latest entry.
local function add(window, time, calls)
  local entries = window[ENTRIES]
  local count = #entries
  if count > 0 and entries[count - 1] == time then
    entries[count] = entries[count] + calls
  else
    entries[count + 1], entries[count + 2] = time, calls
  end
end

-- Counts a call in a window; says when the oldest leaves.
local function charge_window(window, cost)
  local entries = window[ENTRIES]
  local first = live(window)
  if first > 1 then
    local count = #entries
    for at = first, count do entries[at - first + 1] = entries[at] end
    for at = count - first + 2, count do entries[at] = nil end
  end
  add(window, stamp(window), cost)
  return leaves(window, entries[1]) - now
end

local function fits(state, rate)
  if state[KIND] ~= rate.kind or state[WINDOW] ~= rate.window then return false end
  local debts = state[DEBTS]
  if debts and state[CAPACITY] ~= rate.capacity then return false end
  if rate.kind == BUCKET then
    return state[INTERVAL] == rate.interval and backlog(state) <= rate.capacity * rate.interval
  end
  local coarse = rate.capacity > EXACT and 1 or 0
  -- What is counted in sixtieths stays so until nothing counts any more.
  return state[COARSE] == coarse or (state[COARSE] == 1 and not is_fresh(state))
end

-- The state without its debts, in the shape and with the numbers of the rate.
local function converted(state, rate)
  local new = fresh(rate)
  if rate.kind == BUCKET then
    local same = state[KIND] == BUCKET and state[INTERVAL] == rate.interval
    local rest = same and backlog(state) or used(state) * rate.interval
    new[ARRIVAL] = now + min(rest, rate.capacity * rate.interval)
  elseif state[KIND] == BUCKET then
    local calls = min(used(state), rate.capacity)
    if calls > 0 then add(new, stamp(new), calls) end
  else
    local entries = state[ENTRIES]
    if state[COARSE] == 1 then
      -- Of calls counted in sixtieths only the latest possible time is known.
      new[COARSE] = 1
      local old_width, new_width = width(state), width(new)
      for at = live(state), #entries, 2 do
        local time = min((entries[at] + 1) * old_width - 1, now)
        add(new, divide(time, new_width), entries[at + 1])
      end
    else
      local new_width = new[COARSE] == 1 and width(new)
      for at = 1, #entries, 2 do
        add(new, new_width and divide(entries[at], new_width) or entries[at], entries[at + 1])
      end
    end
  end
  if is_fresh(new) then return fresh(rate) end
  return new
end

local function without_debts(state)
  local copy = {}
  for at = 1, DEBTS - 1 do copy[at] = state[at] end
  return copy
end

-- A state for the rate that has as much in use as the one of the sources ({state, is given up}) with the most. What of
-- those that are given up does not fit is kept as debts.
local function succeeding(sources, rate)
  local all = {}
  for _, source in ipairs(sources) do
    local state, given_up = source[1], source[2]
    for _, debt in ipairs(state[DEBTS] or {}) do
      if not is_fresh(debt[1]) then all[#all + 1] = {debt, given_up} end
    end
    local current = without_debts(state)
    if not is_fresh(current) then
      all[#all + 1] = {{current, state[KIND] == BUCKET and backlog(state) or 0}, given_up}
    end
  end
  local new, most_used, most_reset
  for _, one in ipairs(all) do
    local candidate = converted(one[1][1], rate)
    local its_used, its_reset = used(candidate), reset(candidate)
    if not new or its_used > most_used or (its_used == most_used and its_reset >= most_reset) then
      new, most_used, most_reset = candidate, its_used, its_reset
    end
  end
  new = new or fresh(rate)
  local in_use = used(new)
  local debts = {}
  for _, one in ipairs(all) do
    local old = one[1][1]
    local shorter = new[KIND] == SLIDING and old[KIND] == SLIDING and new[WINDOW] < old[WINDOW]
    if one[2] and (shorter or used(old) > in_use) then debts[#debts + 1] = one[1] end
  end
  table.sort(debts, function(a, b) return used(a[1]) > used(b[1]) end)
  for at = #debts, MOST_DEBTS + 1, -1 do debts[at] = nil end
  if #debts > 0 then new[DEBTS] = debts end
  return new
end

-- The state that a rate gets of those of its place (by ordinal) when they are dealt out to `rates`.
local function successor(group, rates, rate)
  local heirs = {}
  for _, other in ipairs(rates) do heirs[other.ordinal] = other end
  -- What was only observed never decides about what is enforced.
  local reachable = rate.observe and 15 or OBSERVED - 1
  local states = {}
  for ordinal = 0, reachable do
    local state = group[ordinal]
    if state then
      local heir = heirs[ordinal]
      states[#states + 1] = {
        state = state, own = ordinal == rate.ordinal, match = state[WINDOW] == rate.window,
        free = not heir or heir.window ~= state[WINDOW],
      }
    end
  end
  local function inherits(one) return (one.own or one.free) and one.match end
  local own, others, inherited, matching = group[rate.ordinal], false, false, false
  for _, one in ipairs(states) do
    others = others or (not one.own and inherits(one))
    inherited = inherited or inherits(one)
    matching = matching or one.match
  end
  if own and not others and fits(own, rate) then return own end
  local sources = {}
  for _, one in ipairs(states) do
    local counts
    if inherited then counts = inherits(one) elseif matching then counts = one.match else counts = true end
    if counts then sources[#sources + 1] = {one.state, one.own or one.free} end
  end
  return succeeding(sources, rate)
end

-- The states of a place by ordinal, none if no call could tell them from none.
local function load(packed)
  local group, in_use = {}, false
  for _, state in ipairs(packed and unpacked(packed) or {}) do
    if state[KIND] == SLIDING and state[COARSE] == 1 then
      local entries = unpacked(state[ENTRIES])
      entries[#entries + 1], entries[#entries + 2] = state[7], state[8]
      state = {state[1], state[2], state[3], state[4], entries, 1, state[11]}
    end
    group[state[ORDINAL]] = state
    in_use = in_use or not is_fresh(state)
  end
  if in_use then return group, true end
  return {}, false
end

local function store(group)
  local states = {}
  for ordinal = 0, 15 do
    local state = group[ordinal]
    local entries = state and state[KIND] == SLIDING and state[COARSE] == 1 and state[ENTRIES]
    if entries and #entries == 0 then
      -- Nothing to remember but the debts, which an entry of no calls goes with.
      entries = {stamp(state), 0}
    end
    if entries then
      local count, all = #entries, 0
      local latest, calls = entries[count - 1], entries[count]
      local first = live(state)
      for at = first + 1, count, 2 do all = all + entries[at] end
      local older = {}
      for at = 1, count - 2 do older[at] = entries[at] end
      state = {
        state[1], state[2], state[3], state[4], pack(older), 1, latest, calls, all, entries[first] or latest, state[DEBTS],
      }
    end
    if state then states[#states + 1] = state end
  end
  return pack(states)
end

-- Ticks until nothing of it is in use.
local function life(state)
  local longest
  if state[KIND] == BUCKET then longest = backlog(state) else longest = state[WINDOW] + 2 * width(state) end
  for _, debt in ipairs(state[DEBTS] or {}) do longest = max(longest, life(debt[1])) end
  return longest
end

-- Ticks until the call would pass, and what is in use after it: ticks of a bucket, calls of a window.
local function judge(state, rate, cost)
  if rate.kind == BUCKET then
    local after = backlog(state) + cost * rate.interval
    return max(after - rate.capacity * rate.interval, 0), after
  end
  local first, calls = live(state)
  local after = calls + cost
  local excess = after - rate.capacity
  if excess <= 0 then return 0, after end
  local entries, last = state[ENTRIES], first
  for at = first, #entries, 2 do
    last, excess = at, excess - entries[at + 1]
    if excess <= 0 then break end
  end
  return leaves(state, entries[last]) - now, after
end

-- Counts an admitted call; says when the first of what is in use comes back, of a window.
local function charge(state, rate, cost)
  local debts = state[DEBTS]
  if debts then
    local kept = {}
    for _, debt in ipairs(debts) do
      local old, most = debt[1], debt[2]
      local covered = old[KIND] == BUCKET and state[KIND] == BUCKET and state[INTERVAL] >= old[INTERVAL]
        and backlog(state) * old[INTERVAL] >= backlog(old) * state[INTERVAL]
      if not is_fresh(old) and not covered then
        if old[KIND] == BUCKET then
          local rest = min(backlog(old) + old[INTERVAL] * cost, most)
          old[ARRIVAL] = max(old[ARRIVAL], now + rest)
        else
          charge_window(old, cost)
          local entries = old[ENTRIES]
          if #entries > 2 * MOST_ENTRIES then
            -- The two oldest become one that counts for longer.
            local merged = {entries[3], entries[2] + entries[4]}
            for at = 5, #entries do merged[at - 2] = entries[at] end
            old[ENTRIES] = merged
          end
        end
        kept[#kept + 1] = debt
      end
    end
    state[DEBTS] = #kept > 0 and kept or nil
  end
  state[CAPACITY] = rate.capacity
  if rate.kind == BUCKET then
    state[ARRIVAL] = max(state[ARRIVAL], now) + cost * rate.interval
    return 0
  end
  return charge_window(state, cost)
end

-- How many calls of a bucket are left; of a window just as well.
local function left(rate, after)
  if rate.kind == BUCKET then return divide(rate.capacity * rate.interval - after, rate.interval) end
  return rate.capacity - after
end

-- The call's places with their rates by name, and the states of each as they are before the call.
for at, place in ipairs(places) do
  local rates = {}
  for which, rate in ipairs(place[3]) do
    rates[which] = {
      index = rate[1], ordinal = rate[2], kind = rate[3], capacity = rate[4], window = rate[5], interval = rate[6],
      observe = rate[7] == 1,
    }
  end
  local group, exists = load(read[at])
  places[at] = {
    key = keys[place[1]], field = place[2], rates = rates, group = group, exists = exists, is_new = not read[at],
  }
end

-- Gives every rate of a place a state that fits; says whether any had to change.
local function prepare(place)
  local group, stale, settled = place.group, false, false
  for _, rate in ipairs(place.rates) do
    local state = group[rate.ordinal]
    if state then
      if state[KIND] == SLIDING then
        settled = settle(state) or settled
      elseif state[INTERVAL] == rate.interval and state[CAPACITY] == rate.capacity then
        settled = settle(state, rate.capacity * rate.interval) or settled
      end
      stale = stale or not fits(state, rate)
    else
      stale = stale or place.exists
    end
  end
  if not stale then
    if not place.exists then
      for _, rate in ipairs(place.rates) do group[rate.ordinal] = fresh(rate) end
    end
    return settled
  end
  local dealt = {}
  for _, rate in ipairs(place.rates) do dealt[rate.ordinal] = successor(group, place.rates, rate) end
  place.group = dealt
  return true
end

-- Writes places back, and lets the hash live as long as anything in it.
local function write(places)
  local by_key = {}
  for _, place in ipairs(places) do
    local writes = by_key[place.key]
    if not writes then
      writes = {fields = {}, life = 0, is_new = false}
      by_key[place.key] = writes
    end
    local fields = writes.fields
    fields[#fields + 1], fields[#fields + 2] = place.field, store(place.group)
    writes.is_new = writes.is_new or place.is_new
    for _, state in pairs(place.group) do writes.life = max(writes.life, life(state)) end
  end
  for key, writes in pairs(by_key) do
    call("HSET", key, unpack(writes.fields))
    keep(key, writes.life)
    -- Each new field pays for a look at some others, so that those that nobody uses any more do not pile up.
    if writes.is_new then
      local some = call("HRANDFIELD", key, 4, "WITHVALUES")
      for at = 1, #some, 2 do
        local _, in_use = load(some[at + 1])
        if not in_use then call("HDEL", key, some[at]) end
      end
    end
  end
end

local changed = {}
for _, place in ipairs(places) do
  if prepare(place) then changed[#changed + 1] = place end
end

if is_look then
  local answer = {}
  for at, cap in ipairs(caps) do answer[at] = cap.used end
  for _, place in ipairs(places) do
    for _, rate in ipairs(place.rates) do
      local state = place.group[rate.ordinal]
      local wait = judge(state, rate, cost)
      answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = rate.index, used(state), wait
    end
  end
  return answer
end

local full = {}
for _, cap in ipairs(caps) do
  if cap.used >= cap[2] then full[#full + 1] = cap end
end

local refusing, observing, passing = {}, {}, {}
local nearest
for _, place in ipairs(places) do
  for _, rate in ipairs(place.rates) do
    local state = place.group[rate.ordinal]
    local wait, after = judge(state, rate, cost)
    if wait > 0 then
      if rate.observe then
        observing[#observing + 1] = rate.index
      else
        refusing[#refusing + 1] = {rate.index, used(state), wait}
      end
    else
      local one = {rate = rate, state = state, after = after, left = left(rate, after)}
      passing[#passing + 1] = one
      if not rate.observe and (not nearest or one.left < nearest.left) then nearest = one end
    end
  end
end

local answer
if #refusing + #full > 0 then
  -- A change of numbers reaches the state with the first call that meets it, admitted or not.
  write(changed)
  answer = {0, #full, #refusing}
  for _, cap in ipairs(full) do answer[#answer + 1], answer[#answer + 2] = cap[1], cap.used end
  for _, one in ipairs(refusing) do
    for at = 1, 3 do answer[#answer + 1] = one[at] end
  end
else
  for _, one in ipairs(passing) do one.reset = charge(one.state, one.rate, cost) end
  write(places)
  take_leases()
  answer = {1, -1, 0, 0}
  if nearest then
    local rate, after = nearest.rate, nearest.after
    if rate.kind == BUCKET then
      local calls = divide_up(after, rate.interval)
      answer = {1, rate.index, calls, after - max(calls - 1, 0) * rate.interval}
    else
      answer = {1, rate.index, after, min(nearest.reset, rate.window)}
    end
  end
end
for _, index in ipairs(observing) do answer[#answer + 1] = index end
return answer
