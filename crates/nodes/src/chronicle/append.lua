-- One batch of a node: events and orders go to the end of the stream, sockets into records.
-- KEYS: stream, facts, the writer's last batch, then the record of each word that has one.
-- ARGV: batch, its time to live, window in ms, bytes of the stream, words, then each word with its fields.
-- Numbers of batches grow. One that comes late by a connection that was given up was carried out before its successors.
if tonumber(redis.call('GET', KEYS[3]) or '0') >= tonumber(ARGV[1]) then
  -- Written, so that this connection has something to wait for replicas with.
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
  return {'again'}
end
local bytes = tonumber(redis.call('HGET', KEYS[2], 'bytes') or '0')
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local last = newest[1] and newest[1][1] or '0-0'
local at, key, answer = 5, 3, {'done'}
for word = 1, tonumber(ARGV[5]) do
  local kind = ARGV[at + 1]
  if kind == 'e' or kind == 'o' then
    last = redis.call('XADD', KEYS[1], '*', kind, ARGV[at + 2])
    bytes = bytes + #ARGV[at + 2]
    at = at + 2
  else
    key = key + 1
    local record = KEYS[key]
    local fence = redis.call('HGET', record, 'fence')
    if kind == 's' then
      if tonumber(fence or '0') <= tonumber(ARGV[at + 2]) then
        redis.call('HSET', record, 'fence', ARGV[at + 2], 'body', ARGV[at + 3], 'uid', ARGV[at + 4], 'ttl', ARGV[at + 5],
          'generation', ARGV[at + 6], 'written', last)
        redis.call('PEXPIRE', record, ARGV[at + 5])
      else
        -- Somebody took it.
        table.insert(answer, word .. ' ' .. fence)
      end
      at = at + 6
    elseif kind == 'a' then
      if fence == ARGV[at + 2] then
        redis.call('HSET', record, 'confirmed', ARGV[at + 3])
        redis.call('PEXPIRE', record, redis.call('HGET', record, 'ttl') or ARGV[2])
      end
      at = at + 3
    else
      if fence == ARGV[at + 2] then redis.call('DEL', record) end
      at = at + 2
    end
  end
end
local time = redis.call('TIME')
local old = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - tonumber(ARGV[3])
local function is_over(entry)
  return tonumber(string.match(entry[1], '^%d+')) < old or bytes > tonumber(ARGV[4])
end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
local rounds = 0
while oldest[1] and is_over(oldest[1]) and rounds < 10 do
  local count, trimmed = 0, nil
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 100)) do
    if not is_over(entry) then break end
    bytes = bytes - #entry[2][2]
    count, trimmed = count + 1, entry[1]
  end
  redis.call('XTRIM', KEYS[1], 'MAXLEN', redis.call('XLEN', KEYS[1]) - count)
  redis.call('HSET', KEYS[2], 'trimmed', trimmed)
  oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
  rounds = rounds + 1
end
redis.call('HSET', KEYS[2], 'bytes', bytes)
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return answer
