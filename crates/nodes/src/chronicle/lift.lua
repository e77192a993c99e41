-- Behind a failover: all that is said from now on has larger numbers than a node has read, or that node would never see it.
-- KEYS: stream, facts. ARGV: the last entry that the node read, and the name behind it. Answers with the last entry up to there that
-- somebody said, and its digest: one that another node lifted the stream with is nothing that anybody misses.
local before = redis.call('XREVRANGE', KEYS[1], ARGV[1], '-', 'COUNT', 1)
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local last = newest[1] and newest[1][1] or '0-0'
local at = before[1] and before[1][1] or '0-0'
if last == at and last ~= ARGV[1] then
  -- Refused if the stream was further and is empty now: then its names are larger anyway.
  local lifted = redis.pcall('XADD', KEYS[1], ARGV[2], 't', '0 -')
  if type(lifted) == 'string' then redis.call('HINCRBY', KEYS[2], 'bytes', 3) end
end
local function is_lift(entry)
  return entry[2][1] == 't' and entry[2][2] == '0 -'
end
while before[1] and is_lift(before[1]) do
  before = redis.call('XREVRANGE', KEYS[1], '(' .. before[1][1], '-', 'COUNT', 1)
end
return before[1] and {before[1][1], redis.sha1hex(before[1][2][2])} or false
