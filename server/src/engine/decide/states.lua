-- Part of the script that usual.lua begins: what the states of limits are, and how they outlast a change of numbers.

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

