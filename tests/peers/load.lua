-- Script of wrk: prints a line of figures at the end. With the length of the body as its
-- argument, also checks each response, which costs the load generator some of its speed.
local threads = {}

function setup(thread) table.insert(threads, thread) end

function init(arguments)
   wrong = 0
   local length = tonumber(arguments[1])
   if length then
      response = function(status, _, body)
         if status ~= 200 or #body ~= length then wrong = wrong + 1 end
      end
   end
end

function done(summary, latency)
   local failed = 0
   for _, kind in ipairs({ "connect", "read", "write", "status", "timeout" }) do
      failed = failed + summary.errors[kind]
   end
   for _, thread in ipairs(threads) do failed = failed + thread:get("wrong") end
   print(string.format("figures %d %d %d %d %d %d", summary.requests, summary.duration,
      summary.bytes, latency:percentile(50), latency:percentile(99), failed))
end
