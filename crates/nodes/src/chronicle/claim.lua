-- Takes a socket from wherever it is: all others are told by the stream. Carried out twice for one claim it gives one answer.
-- KEYS: stream, facts, record. ARGV: user, claim, pid.
local record = redis.call('HMGET', KEYS[3], 'fence', 'uid', 'body', 'confirmed', 'written', 'generation', 'claim')
if not record[1] then return {'unknown'} end
if record[2] ~= ARGV[1] then return {'other_user'} end
local fence = tonumber(record[1])
if record[7] ~= ARGV[2] then
  fence = fence + 1
  redis.call('HSET', KEYS[3], 'fence', fence, 'claim', ARGV[2])
  local taken = fence .. ' ' .. ARGV[3]
  redis.call('XADD', KEYS[1], '*', 't', taken)
  redis.call('HINCRBY', KEYS[2], 'bytes', #taken)
end
local trimmed = redis.call('HGET', KEYS[2], 'trimmed')
return {'taken', tostring(fence), record[3], record[4] or '0-0', record[5], record[6], trimmed or '0-0'}
