package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (b *bench) load(s *site) *load {
	return &load{addr: s.addr, key: s.key, path: "/v1/messages", conns: b.conns, until: b.length(), body: message}
}

// rates drives the server as fast as it answers, and beside it net/http with a
// handler that only reads the body.
func (b *bench) rates(ctx context.Context) (string, error) {
	s, err := b.open(ctx, "ingest")
	if err != nil {
		return "", err
	}
	defer s.close()
	bare, stop, err := ceiling()
	if err != nil {
		return "", err
	}
	defer stop()
	type pair struct {
		weir, bare *taken
		cpu        float64 // of the server, in µs a request
	}
	var runs []pair
	for i := range b.runs + 1 { // the first one warms up
		before, err := rig.CPU(s.worker.PID())
		if err != nil {
			return "", err
		}
		one, err := b.load(s).run(ctx)
		if err != nil {
			return "", err
		}
		after, err := rig.CPU(s.worker.PID())
		if err != nil {
			return "", err
		}
		cpu := float64((after - before).Microseconds()) / float64(max(len(one.took), 1))
		l := b.load(s)
		l.addr = bare
		other, err := l.run(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(b.log, "run %d: weir %.0f/s %v p99 %.1f ms, %.0f µs of processor a request, bare %.0f/s\n", i, one.rate(), one.codes, ms(one.at(.99)), cpu, other.rate())
		if n := len(one.took); n == 0 || one.codes[http.StatusAccepted] != n || one.broken > 0 {
			return "", fmt.Errorf("not all were accepted: %v, %d broken", one.codes, one.broken)
		}
		if i > 0 {
			runs = append(runs, pair{one, other, cpu})
		}
	}
	memory, err := rig.PeakMemory(s.worker.PID())
	if err != nil {
		return "", err
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# POST /v1/messages, as fast as it answers\n`weir run --roles ingest` and its %d clients on the same machine; each run is %d s, in turns with the bare handler: net/http\n", b.conns, b.seconds)
	t.WriteString("that reads the body and answers 202 with the same length, in the clients' process. Each answer of Weir's follows the acknowledgement (acks=all).\n\n")
	t.WriteString("| | requests/s | p50 ms | p99 ms | server's processor, µs a request | bare handler/s | of it |\n|---|---|---|---|---|---|---|\n")
	for i, r := range runs {
		fmt.Fprintf(&t, "| %d | %.0f | %.1f | %.1f | %.0f | %.0f | %.0f %% |\n", i+1, r.weir.rate(), ms(r.weir.at(.5)), ms(r.weir.at(.99)), r.cpu, r.bare.rate(), 100*r.weir.rate()/r.bare.rate())
	}
	for _, st := range rig.Stats {
		fmt.Fprintf(&t, "| **%s** | %.0f | %.1f | %.1f | %.0f | %.0f | %.0f %% |\n", st.Name,
			rig.Of(st, runs, func(r pair) float64 { return r.weir.rate() }), rig.Of(st, runs, func(r pair) float64 { return ms(r.weir.at(.5)) }),
			rig.Of(st, runs, func(r pair) float64 { return ms(r.weir.at(.99)) }), rig.Of(st, runs, func(r pair) float64 { return r.cpu }), rig.Of(st, runs, func(r pair) float64 { return r.bare.rate() }),
			rig.Of(st, runs, func(r pair) float64 { return 100 * r.weir.rate() / r.bare.rate() }))
	}
	fmt.Fprintf(&t, "\nThe server's peak memory: %d MB.\n", memory>>20)
	return t.String(), nil
}

// ceiling serves what any handler of net/http can at most.
func ceiling() (addr string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	answer := []byte(`{"id":"01a1ffec-254a-7083-b077-cec2f885424c","status":"accepted"}` + "\n")
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		w.Write(answer)
	})}
	go srv.Serve(ln) //nolint:errcheck // until it is closed
	return ln.Addr().String(), func() { srv.Close() }, nil
}

// half measures latency at a rate.
func (b *bench) half(ctx context.Context) (string, error) {
	s, err := b.open(ctx, "ingest")
	if err != nil {
		return "", err
	}
	defer s.close()
	var runs []*taken
	for i := range b.runs + 1 {
		l := b.load(s)
		l.every = time.Second / time.Duration(b.rate)
		one, err := l.run(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(b.log, "run %d: %.0f/s p50 %.2f p99 %.2f max %.1f ms %v\n", i, one.rate(), ms(one.at(.5)), ms(one.at(.99)), ms(one.at(1)), one.codes)
		if i > 0 {
			runs = append(runs, one)
		}
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# POST /v1/messages at %d a second\n`weir run --roles ingest` and %d clients on the same machine; each run is %d s. Times are from when a request was due,\n", b.rate, b.conns, b.seconds)
	t.WriteString("whether or not the one before was answered.\n\n| | requests/s | p50 ms | p90 ms | p99 ms | max ms |\n|---|---|---|---|---|---|\n")
	for i, r := range runs {
		fmt.Fprintf(&t, "| %d | %.0f | %.2f | %.2f | %.2f | %.1f |\n", i+1, r.rate(), ms(r.at(.5)), ms(r.at(.9)), ms(r.at(.99)), ms(r.at(1)))
	}
	for _, st := range rig.Stats {
		of := func(q float64) float64 { return rig.Of(st, runs, func(r *taken) float64 { return ms(r.at(q)) }) }
		fmt.Fprintf(&t, "| **%s** | %.0f | %.2f | %.2f | %.2f | %.1f |\n", st.Name, rig.Of(st, runs, (*taken).rate), of(.5), of(.9), of(.99), of(1))
	}
	buckets, n, err := s.histogram("weir_http_work_seconds")
	if err != nil {
		return "", err
	}
	t.WriteString("\nThe server's own work on a request, besides the acknowledgement (`weir_http_work_seconds`, all runs):\n\n| within | requests |\n|---|---|\n")
	bounds := make([]float64, 0, len(buckets))
	for bound := range buckets {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		if math.IsInf(bound, 1) {
			continue
		}
		fmt.Fprintf(&t, "| %v | %.3f %% |\n", time.Duration(bound*1e9), 100*float64(buckets[bound])/float64(n))
	}
	return t.String(), nil
}

// kill kills the server again and again under load, and looks for each message
// that it answered 202.
func (b *bench) kill(ctx context.Context) (string, error) {
	s, err := b.open(ctx, "ingest")
	if err != nil {
		return "", err
	}
	defer func() { s.close() }()
	answered := make(map[string]bool)
	broken := 0
	for i := range b.runs {
		l := b.load(s)
		l.keep = true
		done := make(chan *taken, 1)
		go func() {
			one, _ := l.run(ctx)
			done <- one
		}()
		// Not at the end: under load.
		time.Sleep(b.length() / 3)
		s.worker.Kill()
		if err := s.start(ctx, "ingest"); err != nil {
			return "", err
		}
		one := <-done
		for _, id := range one.ids {
			answered[id] = true
		}
		broken += one.broken
		fmt.Fprintf(b.log, "kill %d: %d answered, %d without an answer\n", i+1, len(one.ids), one.broken)
	}
	there, records, err := s.requests(ctx)
	if err != nil {
		return "", err
	}
	lost := 0
	for id := range answered {
		if !there[id] {
			lost++
		}
	}
	text := fmt.Sprintf("# kill -9 under load\n%d kills of `weir run --roles ingest` under %d connections: %d answers of 202, %d records in weir.requests, %d requests without an answer.\n\n**Lost: %d.**\n",
		b.runs, b.conns, len(answered), records, broken, lost)
	if lost > 0 {
		return "", fmt.Errorf("%s", text)
	}
	return text, nil
}

// requests reads the ids of all records of weir.requests.
func (s *site) requests(ctx context.Context) (map[string]bool, int, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.bench.cluster.Brokers...), kgo.ConsumeTopics(s.weir.Names.Requests()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, 0, err
	}
	defer cl.Close()
	ids, n := make(map[string]bool), 0
	for {
		// Nothing for two seconds: nobody writes any more.
		quiet, cancel := context.WithTimeout(ctx, 2*time.Second)
		fetches := cl.PollFetches(quiet)
		cancel()
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if fetches.NumRecords() == 0 {
			return ids, n, nil
		}
		for _, r := range fetches.Records() {
			q, err := schemas.DecodeRequest(r.Value, nil)
			if err != nil {
				return nil, 0, err
			}
			ids[q.ID] = true
			n++
		}
	}
}

// batches sends NDJSON, a few at a time.
func (b *bench) batches(ctx context.Context) (string, error) {
	s, err := b.open(ctx, "ingest")
	if err != nil {
		return "", err
	}
	defer s.close()
	random := rand.New(rand.NewPCG(1, 2))
	var body []byte
	for range b.items {
		body = append(message(random, body), '\n')
	}
	const senders = 4
	type run struct {
		rate float64
		n    int
	}
	var runs []run
	for i := range b.runs + 1 {
		until := time.Now().Add(b.length())
		results := make(chan int, senders)
		fail := make(chan error, senders)
		began := time.Now()
		for range senders {
			go func() {
				n := 0
				for time.Now().Before(until) && ctx.Err() == nil {
					got, err := s.batch(ctx, body)
					if err != nil {
						fail <- err
						return
					}
					n += got
				}
				results <- n
			}()
		}
		total := 0
		for range senders {
			select {
			case n := <-results:
				total += n
			case err := <-fail:
				return "", err
			}
		}
		r := run{float64(total) / time.Since(began).Seconds(), total}
		fmt.Fprintf(b.log, "run %d: %.0f messages/s\n", i, r.rate)
		if i > 0 {
			runs = append(runs, r)
		}
	}
	memory, err := rig.PeakMemory(s.worker.PID())
	if err != nil {
		return "", err
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# NDJSON batches\n%d senders of batches of %d messages (%d KiB) to `weir run --roles ingest`; each run is %d s.\n\n| | messages/s |\n|---|---|\n", senders, b.items, len(body)>>10, b.seconds)
	for i, r := range runs {
		fmt.Fprintf(&t, "| %d | %.0f |\n", i+1, r.rate)
	}
	for _, st := range rig.Stats {
		fmt.Fprintf(&t, "| **%s** | %.0f |\n", st.Name, rig.Of(st, runs, func(r run) float64 { return r.rate }))
	}
	fmt.Fprintf(&t, "\nThe server's peak memory: **%d MB**.\n", memory>>20)
	return t.String(), nil
}

// batch sends one and returns how many messages the brokers hold.
func (s *site) batch(ctx context.Context, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/v1/messages/batch", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	n := strings.Count(string(answer), `"status":"accepted"`)
	if want := strings.Count(string(body), "\n"); resp.StatusCode != http.StatusAccepted || n != want {
		return 0, fmt.Errorf("%d: %d of %d accepted", resp.StatusCode, n, want)
	}
	return n, nil
}

// waits sends one message at a time and waits for its decision.
func (b *bench) waits(ctx context.Context) (string, error) {
	s, err := b.open(ctx, "ingest,admission")
	if err != nil {
		return "", err
	}
	defer s.close()
	c := client.New("http://"+s.addr, s.key)
	const warm = 50
	var took []time.Duration
	statuses := make(map[schemas.Status]int)
	for i := range warm + b.runs*200 {
		began := time.Now()
		sent, err := c.SendAndWait(ctx, &schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86139%08d", i), Class: "verify", Body: "code 123456"}, 5*time.Second)
		if err != nil {
			return "", err
		}
		if d := time.Since(began); i >= warm {
			took = append(took, d)
			statuses[sent.Status]++
		}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return ms(took[min(int(q*float64(len(took))), len(took)-1)]) }
	var t strings.Builder
	fmt.Fprintf(&t, "# Prefer: wait, idle\n`weir run --roles ingest,admission`; the Go client sends one message at a time and waits for its decision (%v).\nFrom before the call to its answer, in ms; %d messages.\n\n| p50 | p90 | p99 | max |\n|---|---|---|---|\n| **%.1f** | %.1f | **%.1f** | %.1f |\n",
		statuses, len(took), at(.5), at(.9), at(.99), at(1))
	return t.String(), nil
}
