-- Stores the events of one namespace in one step, each in the stream of its room. The id of an entry is its place: ms and a counter, which
-- grow in the namespace. Numbers of Lua hold 53 bits, so the two are kept apart.
-- KEYS: the last place, the last batch of this writer, and all streams and sets that are written. ARGV: number of the batch, beginning of the keys of rooms and users, and for each
-- event: room, name, args, user (empty: none), whether there is one, time, number of events and ms that the room keeps.
local number, prefix = ARGV[1], ARGV[2]
local known = redis.call('GET', KEYS[2])
if known then
    local of, places = string.match(known, '^(%d+):(.*)$')
    if of == number then
        -- Written again, so that this connection can ask replicas for it.
        redis.call('SET', KEYS[2], known, 'EX', 3600)
        return places
    end
    -- Given up by its writer, which has gone on: another attempt stored it.
    if tonumber(of) > tonumber(number) then
        return redis.error_reply('STALE an attempt that came too late')
    end
end
local last = redis.call('GET', KEYS[1]) or '0-0'
local ms, count = string.match(last, '^(%d+)-(%d+)$')
ms, count = tonumber(ms), tonumber(count)
-- A gateway whose clock is ahead does not move all places: a minute is more than clocks differ.
local clock = redis.call('TIME')
local latest = clock[1] * 1000 + 60000
local places = {}
local at = 3
while at <= #ARGV do
    local room, name, args, user, has_user, time, events, age =
        ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], tonumber(ARGV[at + 5]), ARGV[at + 6], tonumber(ARGV[at + 7])
    at = at + 8
    local placed = math.min(time, latest)
    if placed > ms then
        ms, count = placed, 0
    elseif count < 1048575 then
        count = count + 1
    else
        ms, count = ms + 1, 0
    end
    local id = string.format('%.0f-%.0f', ms, count)
    local stream = prefix .. 'room:' .. room
    redis.call('XADD', stream, 'MAXLEN', '=', events, id, 'n', name, 'a', args, 'u', user, 'h', has_user, 't', string.format('%.0f', time))
    if placed > age then
        redis.call('XTRIM', stream, 'MINID', string.format('%.0f', placed - age))
    end
    redis.call('PEXPIRE', stream, string.format('%.0f', age))
    if has_user == '1' then
        local index = prefix .. 'user:' .. user
        redis.call('ZADD', index, string.format('%.0f', ms), id .. ' ' .. room)
        -- An event stays in its stream for twice its age at most, if others follow it there; so long its user is known.
        if ms > 2 * age then
            redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('(%.0f', ms - 2 * age))
        end
        local left = redis.call('PTTL', index)
        if left < 2 * age then
            redis.call('PEXPIRE', index, string.format('%.0f', 2 * age))
        end
    end
    places[#places + 1] = id
end
redis.call('SET', KEYS[1], places[#places])
local all = table.concat(places, ' ')
redis.call('SET', KEYS[2], number .. ':' .. all, 'EX', 3600)
return all
