-- Behind a failover: all that is said from now on has larger numbers than a node has read, or that node would never see it.
-- KEYS: stream, facts. ARGV: the last entry that the node read, and the name behind it. Answers with the last entry up to there.
local upto = redis.call('XREVRANGE', KEYS[1], ARGV[1], '-', 'COUNT', 1)
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local last = newest[1] and newest[1][1] or '0-0'
local found = upto[1] and upto[1][1] or '0-0'
if last == found and last ~= ARGV[1] then
  -- Refused if the stream was further and is empty now: then its names are larger anyway.
  local lifted = redis.pcall('XADD', KEYS[1], ARGV[2], 't', '0 -')
  if type(lifted) == 'string' then redis.call('HINCRBY', KEYS[2], 'bytes', 3) end
end
return found
