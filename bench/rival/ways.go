package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// message is what a worker needs of a request.
type message struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
}

// answer is what a way says of a message.
type answer struct {
	ok bool
	at int64 // in microseconds, by the clock of Redis, as near to the count as the way comes
}

// way is one usual manner of keeping limits in Redis.
type way struct {
	name  string // of its group and keys
	title string
	ask   func(ctx context.Context, rdb *redis.Client, m message) (answer, error)
}

var ways = []way{
	{"incr", "INCR, EXPIRE on the first", incr},
	{"zset", "sorted sets in a pipeline", zset},
	{"lua", "Lua, every attempt counts", func(ctx context.Context, rdb *redis.Client, m message) (answer, error) {
		return lua(ctx, rdb, "lua", m, "")
	}},
	{"luaid", "Lua, a message counts once", func(ctx context.Context, rdb *redis.Client, m message) (answer, error) {
		return lua(ctx, rdb, "luaid", m, m.ID)
	}},
}

func key(way string, l *limit, w window, tenant string) string {
	return way + ":" + l.name + ":" + l.scope(tenant) + ":" + w.length.String()
}

// incr counts in fixed windows, which begin with their first message: one pipeline
// of INCR, and EXPIRE for the counters that are new. Refused attempts count too,
// until their window ends. It is the better of the two ways found in print: the
// other arms EXPIRE on every attempt, so that the counter of whoever is busy never ends.
func incr(ctx context.Context, rdb *redis.Client, m message) (answer, error) {
	type counter struct {
		key string
		w   window
		n   *redis.IntCmd
	}
	var counters []counter
	pipe := rdb.Pipeline()
	for i := range limits {
		for _, w := range limits[i].windows {
			k := key("incr", &limits[i], w, m.Tenant)
			counters = append(counters, counter{k, w, pipe.Incr(ctx, k)})
		}
	}
	now := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return answer{}, fmt.Errorf("count: %w", err)
	}
	a := answer{ok: true, at: now.Val().UnixMicro()}
	pipe = rdb.Pipeline()
	for _, c := range counters {
		if c.n.Val() == 1 {
			pipe.Expire(ctx, c.key, c.w.length)
		}
		a.ok = a.ok && c.n.Val() <= c.w.n
	}
	if pipe.Len() > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return answer{}, fmt.Errorf("expire: %w", err)
		}
	}
	return a, nil
}

// zset keeps a sorted set a window, by the worker's clock: what is old goes, this
// attempt comes in, what is in is counted. Attempts that are refused stay in.
func zset(ctx context.Context, rdb *redis.Client, m message) (answer, error) {
	type counted struct {
		w window
		n *redis.IntCmd
	}
	var all []counted
	now := time.Now().UnixMicro()
	pipe := rdb.Pipeline()
	for i := range limits {
		for _, w := range limits[i].windows {
			k := key("zset", &limits[i], w, m.Tenant)
			pipe.ZRemRangeByScore(ctx, k, "0", strconv.FormatInt(now-w.length.Microseconds(), 10))
			// Others add only the time, and lose one of two attempts of the same microsecond.
			pipe.ZAdd(ctx, k, redis.Z{Score: float64(now), Member: strconv.FormatInt(now, 10) + ":" + m.ID})
			pipe.Expire(ctx, k, w.length)
			all = append(all, counted{w, pipe.ZCard(ctx, k)})
		}
	}
	at := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return answer{}, fmt.Errorf("count: %w", err)
	}
	a := answer{ok: true, at: at.Val().UnixMicro()}
	for _, c := range all {
		a.ok = a.ok && c.n.Val() <= c.w.n
	}
	return a, nil
}

// script asks all windows of all limits and takes a place in each limit, or in
// none: atomic, by Redis's own clock, exact as long as Redis remembers.
//
// KEYS are the limits' sets. ARGV[1] is the member, or empty for one of its own for
// each attempt; then for each set the number of its windows, and n and length in
// microseconds of each.
var script = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local member = ARGV[1]
if member == '' then
  member = stamp .. ':' .. ARGV[2]
elseif redis.call('ZSCORE', KEYS[1], member) then
  return {1, stamp}
end
local i, longest = 3, {}
for k = 1, #KEYS do
  local windows = tonumber(ARGV[i])
  longest[k] = 0
  i = i + 1
  for _ = 1, windows do
    local n, length = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    i = i + 2
    if redis.call('ZCOUNT', KEYS[k], '(' .. string.format('%.0f', now - length), '+inf') >= n then
      return {0, stamp}
    end
    longest[k] = math.max(longest[k], length)
  end
end
for k = 1, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[k], '-inf', string.format('%.0f', now - longest[k]))
  redis.call('ZADD', KEYS[k], stamp, member)
  redis.call('PEXPIRE', KEYS[k], longest[k] / 1000)
end
return {1, stamp}
`)

func lua(ctx context.Context, rdb *redis.Client, way string, m message, member string) (answer, error) {
	var keys []string
	args := []any{member, m.ID}
	for i := range limits {
		l := &limits[i]
		keys = append(keys, way+":"+l.name+":"+l.scope(m.Tenant))
		args = append(args, len(l.windows))
		for _, w := range l.windows {
			args = append(args, w.n, w.length.Microseconds())
		}
	}
	got, err := script.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return answer{}, fmt.Errorf("script: %w", err)
	}
	ok, _ := got[0].(int64)
	stamp, _ := got[1].(string)
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return answer{}, fmt.Errorf("script: %w", err)
	}
	return answer{ok: ok == 1, at: at}, nil
}
