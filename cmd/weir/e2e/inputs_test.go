package e2e

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/schemas"
)

const inputsPolicy = `
limits:
  - {name: once, match: {class: verify}, per: [recipient], allow: [1/1h]}
providers:
  - {name: sim, type: simulated, channels: [sms], settings: {latency: 1ms-5ms}}
tenants:
  - {name: acme, default_region: CN}
inputs:
  - {topic: %s, tenant: acme}
`

// inputs writes to a topic that is bound to a tenant, as a service in another
// language would, while the workers that read it are killed: what is its tenant's
// is sent once, as its tenant's, and a recipient has one limit whichever door his
// messages come through.
func inputs(t *testing.T, brokers []string, sc scale) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(FNV1a))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	name := fmt.Sprintf("acme-%d.sends", time.Now().UnixNano())
	own, made, compacted := name, name+".made", name+".compacted"
	create := func(topic string, parts int32, settings map[string]string) {
		all := make(map[string]*string)
		for k, v := range settings {
			all[k] = &v
		}
		if _, err := adm.CreateTopic(t.Context(), parts, 1, all, topic); err != nil {
			t.Fatal(err)
		}
	}
	create(own, 5, nil) // as its owners have it
	create(compacted, 1, map[string]string{"cleanup.policy": "compact"})

	s := newSite(t, brokers, "inputs", fmt.Sprintf(inputsPolicy, own))
	seen := newLives()
	s.follow(seen.add)
	addr := childtest.Addr(t)
	const roles = "inputs,admission,lanes,delay"
	workers := []*Process{s.run(0, "ingest,"+roles, "--http-listen", addr), s.run(1, roles)}

	// byTo are the ends of each recipient's messages.
	byTo := func() map[string][]*schemas.Event {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		out := make(map[string][]*schemas.Event)
		for _, events := range seen.events {
			for _, e := range events {
				if e.Kind == schemas.KindStatus && e.Status.End() {
					out[e.To] = append(out[e.To], e)
				}
			}
		}
		return out
	}
	write := func(topic string, value []byte, key string, headers ...kgo.RecordHeader) {
		cl.Produce(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value, Headers: headers}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
	// send writes the i-th message, in one of three encodings.
	send := func(topic string, i int) {
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("1381000%04d", i), Body: "hi"}
		switch i % 3 {
		case 0:
			write(topic, schemas.RequestJSON(&q), q.To)
		case 1:
			b, err := schemas.RequestProto(&q)
			if err != nil {
				t.Fatal(err)
			}
			write(topic, b, q.To, kgo.RecordHeader{Key: "content-type", Value: []byte("application/x-protobuf")})
		case 2:
			write(topic, append(binary.BigEndian.AppendUint32([]byte{0}, 7), schemas.RequestJSON(&q)...), q.To)
		}
	}
	ended := func(n int) func() bool { return func() bool { return len(byTo()) >= n } }

	total := 20 * sc.messages
	sent := 0
	more := func(n int) {
		for range n {
			send(own, sent)
			sent++
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	more(total / 4)
	if !poll(t, 60*time.Second, ended(1)) {
		t.Fatal("nothing is sent")
	}
	s.stable(2)
	more(total / 4)
	workers[1].Kill()
	more(total / 4)
	workers[1] = s.run(1, roles)
	s.stable(2)
	more(total / 4)
	workers[0].Kill()
	workers[0] = s.run(0, "ingest,"+roles, "--http-listen", addr)
	if !poll(t, 90*time.Second, ended(sent)) {
		t.Fatalf("%d of %d messages have an end", len(byTo()), sent)
	}
	for to, ends := range byTo() {
		if len(ends) != 1 || ends[0].Status != schemas.StatusSent || ends[0].Tenant != "acme" || !strings.HasPrefix(to, "+861381000") {
			t.Fatalf("%s…: %d ends, the first %s as tenant %s's, %s", to[:min(10, len(to))], len(ends), ends[0].Status, ends[0].Tenant, ends[0].Reason)
		}
	}
	t.Logf("INPUTS %d messages in three encodings, two workers killed: each sent once", sent)

	// Bound while they run, and made by apply.
	began := time.Now()
	s.apply(fmt.Sprintf(inputsPolicy, own) + "  - {topic: " + made + ", tenant: acme}\n")
	applied := time.Now()
	send(made, sent)
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent++
	if !poll(t, 30*time.Second, ended(sent)) {
		t.Error("what was written to a topic that was bound meanwhile is not sent")
	}
	t.Logf("INPUTS a topic that is bound meanwhile: applied in %v, and its first message sent %v later", applied.Sub(began).Round(time.Millisecond), time.Since(applied).Round(time.Millisecond))

	// Whichever door they come through.
	requests, err := NewProducer(brokers, s.names, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	const recipients = 12
	for i := range recipients {
		to := fmt.Sprintf("+86138200000%02d", i)
		q := schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "code"}
		through := []func(){
			func() { requests.Send(t.Context(), &q, to) },
			func() {
				if resp, body := post(t, "http://"+addr+"/v1/messages", string(schemas.RequestJSON(&q))); resp.StatusCode != 202 {
					t.Errorf("HTTP: %d %s", resp.StatusCode, body)
				}
			},
			func() { write([]string{own, made}[i%2], schemas.RequestJSON(&q), to) },
		}
		for j := range through { // another one first each time
			through[(i+j)%len(through)]()
		}
	}
	if _, err := requests.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// And what is not acme's, or nothing at all.
	const foreign, garbage = 5, 5
	for i := range foreign {
		q := schemas.Request{Tenant: []string{"globex", "default"}[i%2], Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86138300000%02d", i), Body: "hi", ID: fmt.Sprintf("6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a0%02d", i)}
		write(own, schemas.RequestJSON(&q), q.To)
	}
	for range garbage {
		write(own, []byte("garbage"), "")
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !poll(t, 60*time.Second, func() bool {
		n := 0
		for _, ends := range byTo() {
			n += len(ends)
		}
		return n >= sent+3*recipients+foreign+garbage
	}) {
		t.Error("not all has ended")
	}
	all := byTo()
	for i := range recipients {
		to, got := fmt.Sprintf("+86138200000%02d", i), make(map[schemas.Status]int)
		for _, e := range all[to] {
			got[e.Status]++
		}
		if !maps.Equal(got, map[schemas.Status]int{schemas.StatusSent: 1, schemas.StatusLimited: 2}) {
			t.Errorf("three messages to one recipient through three doors: %v", got)
		}
	}
	for i := range foreign {
		ends := all[fmt.Sprintf("+86138300000%02d", i)]
		if len(ends) != 1 || ends[0].Status != schemas.StatusRejected || ends[0].Reason != schemas.ReasonForbiddenTenant || ends[0].Tenant != "acme" || ends[0].Source.Topic != own {
			t.Errorf("another tenant's: %+v", ends)
		}
	}
	if ends := all[""]; len(ends) != garbage || slices.ContainsFunc(ends, func(e *schemas.Event) bool {
		return e.Status != schemas.StatusRejected || e.Reason != schemas.ReasonNotJSON || e.Tenant != "acme"
	}) {
		t.Errorf("garbage: %d ends", len(ends))
	}
	if out := s.weir("dlq", "list", "--json", "--limit", "0", "--reason", schemas.ReasonForbiddenTenant); strings.Count(out, "\n") != foreign || strings.Count(out, `"tenant":"acme"`) != foreign {
		t.Errorf("in the DLQ:\n%s", out)
	}
	if out := s.weir("dlq", "redrive", "--all"); !strings.Contains(out, "0 of 10") {
		t.Errorf("a redrive sends what is nobody's: %s", out)
	}

	// What cannot be read exactly once is refused, and nothing is changed.
	for topic, why := range map[string]string{compacted: "is compacted", s.names.Requests(): "one of Weir's own"} {
		text := fmt.Sprintf(inputsPolicy, own) + "  - {topic: " + topic + ", tenant: acme}\n"
		if out, err := s.tryApply(text); err == nil || !strings.Contains(out, why) {
			t.Errorf("bound to %s: %s", topic, out)
		}
	}
	s.stop(workers...)
	if out, err := s.try("audit"); err != nil || !strings.Contains(out, fmt.Sprintf("turned away at inputs       %d", foreign+garbage)) {
		t.Errorf("weir audit: %v\n%s", err, out)
	}
}
