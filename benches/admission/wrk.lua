-- For wrk: POSTs the file that REVIEW names, again and again, and says in one line of JSON what came of it.

function init(_)
  local file = assert(io.open(os.getenv("REVIEW"), "rb"))
  wrk.method, wrk.body = "POST", file:read("*a")
  wrk.headers["Content-Type"] = "application/json"
  file:close()
end

function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local said = '{"requests": %d, "failed": %d, "microseconds": %d, "p50": %d, "p99": %d}\n'
  local p50, p99 = latency:percentile(50), latency:percentile(99)
  io.write(said:format(summary.requests, failed, summary.duration, p50, p99))
end
