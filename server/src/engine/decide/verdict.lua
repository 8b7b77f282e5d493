-- Part of the script that usual.lua begins: whatever its usual path has left is judged, charged and answered here.

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
