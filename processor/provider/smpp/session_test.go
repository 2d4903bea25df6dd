package smpp

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/smpp/smpptest"
	"github.com/weirhq/weir/schemas"
)

// rig is an adapter and a centre within a bubble: time is the bubble's.
type rig struct {
	*adapter
	centre   *smpptest.SMSC
	dial     func(ctx context.Context) (net.Conn, error) // nil connects
	receipts chan provider.Receipt
	inbound  chan provider.Inbound
	refuse   atomic.Bool // inbound messages are not taken
}

func inBubble(t *testing.T, settings map[string]any, begin func(*rig), test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{centre: smpptest.New(), receipts: make(chan provider.Receipt, 100), inbound: make(chan provider.Inbound, 100)}
		all := map[string]any{"endpoint": "centre.example:2775", "system_id": smpptest.SystemID, "password": smpptest.Password}
		for k, v := range settings {
			all[k] = v
		}
		deps := provider.Deps{Private: outbound.Loopback,
			Receipts: func(rc provider.Receipt) { r.receipts <- rc },
			Inbound: func(in provider.Inbound) error {
				if r.refuse.Load() {
					return errors.New("not now")
				}
				r.inbound <- in
				return nil
			},
		}
		p, err := provider.Types{"smpp": {Open: func(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
			in := deps.Settings(p)
			a := adapterOf(p.Name, readSettings(in), deps)
			if err := in.Err(); err != nil {
				return nil, err
			}
			r.adapter = a
			a.session.dial = func(ctx context.Context) (net.Conn, error) {
				if r.dial != nil {
					return r.dial(ctx)
				}
				return r.connect(), nil
			}
			if begin != nil {
				begin(r)
			}
			a.session.start()
			return a, nil
		}}}.Open(schemas.Provider{Name: "centre", Type: "smpp", Settings: all}, deps)
		if err != nil {
			t.Fatal(err)
		}
		test(t, r)
		_ = p.Close()
		r.centre.Close()
	})
}

func (r *rig) connect() net.Conn {
	near, far := net.Pipe()
	r.centre.Serve(far)
	return near
}

func (r *rig) send(t *testing.T, within time.Duration, text string) provider.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return r.Send(ctx, &provider.Call{ID: "m", To: "+8613800000000", Channel: schemas.ChannelSMS, Tenant: "acme", Attempt: 1, Content: content.Content{Body: text}})
}

func (r *rig) seen(t *testing.T) (s smpptest.Seen) {
	t.Helper()
	r.centre.Wait(t, "seen", func(now smpptest.Seen) bool { s = now; return true })
	return s
}

// outcome is what of an outcome the lane goes by.
type outcome struct {
	kind     provider.Kind
	received bool
	code     string
}

func of(o provider.Outcome) outcome { return outcome{o.Kind, o.MayBeReceived, o.Code} }

// TestWindow: no more messages are without an answer than the window has, one that is
// late keeps its place although its call is over, and a place is freed when the answer
// comes or after a minute.
func TestWindow(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	inBubble(t, map[string]any{"window": 3}, func(r *rig) {
		r.centre.Answer = func(int, smpptest.Submit) (uint32, bool) { return 0, !silent.Load() }
	}, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if o := r.send(t, time.Second, "x"); of(o) != (outcome{provider.Unknown, true, "timeout"}) {
					t.Errorf("written and never answered: %+v", o)
				}
			})
		}
		wg.Wait()
		if o := r.send(t, time.Second, "x"); of(o) != (outcome{provider.Transient, false, "window_full"}) {
			t.Errorf("without a place: %+v", o)
		}
		if s := r.seen(t); s.Submits != 3 {
			t.Errorf("%d messages were sent into a window of 3", s.Submits)
		}
		// Late answers, of which the first also says that its message was refused.
		for seq := range uint32(3) {
			r.centre.Raw(t, []byte{0, 0, 0, 18, 0x80, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, byte(seq + 2), 'a', 0})
		}
		synctest.Wait()
		silent.Store(false)
		if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
			t.Errorf("after late answers: %+v", o)
		}
		silent.Store(true)
		for range 3 {
			r.send(t, time.Second, "x")
		}
		time.Sleep(50 * time.Second)
		if o := r.send(t, time.Second, "x"); o.Code != "window_full" {
			t.Errorf("50 seconds after calls without answers: %+v", o)
		}
		silent.Store(false)
		time.Sleep(time.Minute)
		if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
			t.Errorf("a minute later: %+v", o)
		}
	})
}

// TestEnquireLink every 30 seconds, and a centre that does not answer it for two of
// them is given up and bound anew.
func TestEnquireLink(t *testing.T) {
	inBubble(t, nil, nil, func(t *testing.T, r *rig) {
		time.Sleep(5*time.Minute + time.Second)
		if s := r.seen(t); s.Enquired != 10 || s.Binds != 1 {
			t.Errorf("after five minutes: %+v", s)
		}
		r.centre.Raw(t, []byte{0, 0, 0, 16, 0, 0, 0, 0x15, 0, 0, 0, 0, 0, 0, 0, 77})
		synctest.Wait()
		if s := r.seen(t); len(s.Answers) != 1 || s.Answers[0] != (smpptest.Answer{Command: 0x80000015, Sequence: 77}) {
			t.Errorf("the centre's own enquire_link: %+v", s.Answers)
		}
	})
	inBubble(t, map[string]any{"enquire_link": "10s"}, func(r *rig) { r.centre.Silent = true }, func(t *testing.T, r *rig) {
		time.Sleep(19 * time.Second)
		if s := r.seen(t); s.Binds != 1 {
			t.Errorf("given up after 19 seconds: %+v", s)
		}
		time.Sleep(3 * time.Second)
		if s := r.seen(t); s.Binds != 2 || s.Sessions != 1 {
			t.Errorf("not bound anew after 22 seconds: %+v", s)
		}
	})
}

// TestReconnect: attempts are made in the background at growing times with chance in
// them; calls fail at once in between, and wait for one that is under way.
func TestReconnect(t *testing.T) {
	var attempts []time.Time
	var down atomic.Bool
	inBubble(t, nil, nil, func(t *testing.T, r *rig) {
		synctest.Wait()
		began := time.Now()
		r.dial = func(context.Context) (net.Conn, error) {
			if !down.Load() {
				return r.connect(), nil
			}
			attempts = append(attempts, time.Now())
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}
		down.Store(true)
		r.centre.Cut()
		synctest.Wait()
		// Just broken: the call waits for the next attempt, which comes within half a second.
		if o := r.send(t, 5*time.Second, "x"); of(o) != (outcome{provider.Transient, false, "not_bound"}) || !strings.Contains(o.Text, "connection refused") || time.Since(began) > time.Second/2 {
			t.Errorf("after %s: %+v", time.Since(began), o)
		}
		before := time.Now()
		if o := r.send(t, 5*time.Second, "x"); of(o) != (outcome{provider.Transient, false, "not_bound"}) || time.Since(before) != 0 {
			t.Errorf("between attempts, after %s: %+v", time.Since(before), o)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for i, d := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
			if i+1 >= len(attempts) {
				t.Fatalf("%d attempts in ten minutes", len(attempts))
			}
			wait := attempts[i+1].Sub(attempts[i])
			if d *= time.Second; wait < d/2 || wait > d {
				t.Errorf("attempt %d comes after %s, want %s to %s", i+2, wait, d/2, d)
			}
		}
		if n := len(attempts); n < 20 || n > 45 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		down.Store(false)
		time.Sleep(31 * time.Second)
		if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
			t.Errorf("when the centre is back: %+v", o)
		}
	})
}

// TestBeforeTheBind nothing is received.
func TestBeforeTheBind(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.dial = func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	}, func(t *testing.T, r *rig) {
		if o := r.send(t, time.Second, "x"); of(o) != (outcome{provider.Transient, false, "connect_timeout"}) {
			t.Errorf("no connection: %+v", o)
		}
	})
	inBubble(t, nil, func(r *rig) {
		r.dial = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}
	}, func(t *testing.T, r *rig) {
		if o := r.send(t, 11*time.Second, "x"); of(o) != (outcome{provider.Transient, false, "not_bound"}) {
			t.Errorf("no answer to the bind: %+v", o)
		}
	})
	for _, tt := range []struct {
		name string
		set  map[string]any
		want outcome
	}{
		{"a wrong password", map[string]any{"password": "wrong"}, outcome{provider.Transient, false, "ESME_RINVPASWD"}},
		{"a wrong name", map[string]any{"system_id": "wrong"}, outcome{provider.Transient, false, "ESME_RINVSYSID"}},
		{"mapped", map[string]any{"password": "wrong", "map": map[string]any{"ESME_RINVPASWD": "transient"}}, outcome{provider.Transient, false, "ESME_RINVPASWD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.set, nil, func(t *testing.T, r *rig) {
				if o := r.send(t, time.Second, "x"); of(o) != tt.want {
					t.Errorf("%+v, want %+v", o, tt.want)
				}
			})
		})
	}
}

// TestAMessageInParts of which one is refused, lost or not written: what came of that
// one comes of the call, and the recipient may have a piece.
func TestAMessageInParts(t *testing.T) {
	text := strings.Repeat("0123456789", 40) // three parts
	for _, tt := range []struct {
		name   string
		at     int // the part that is not accepted, from 1
		status uint32
		answer bool
		want   outcome
	}{
		{"the first is refused", 1, 0x45, true, outcome{provider.Transient, false, "ESME_RSUBMITFAIL"}},
		{"the second, for good", 2, 0x0b, true, outcome{provider.Permanent, true, "ESME_RINVDSTADR"}},
		{"the second, too fast", 2, 0x58, true, outcome{provider.Throttled, true, "ESME_RTHROTTLED"}},
		{"the third, for now", 3, 0x45, true, outcome{provider.Transient, true, "ESME_RSUBMITFAIL"}},
		{"the third, with a code of the centre's", 3, 0x401, true, outcome{provider.Transient, true, "0x00000401"}},
		{"the second is not answered", 2, 0, false, outcome{provider.Unknown, true, "timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []byte
			inBubble(t, nil, func(r *rig) {
				n := 0
				r.centre.Answer = func(_ int, s smpptest.Submit) (uint32, bool) {
					n++
					got = append(got, s.Message[5])
					if n == tt.at {
						return tt.status, tt.answer
					}
					return 0, true
				}
			}, func(t *testing.T, r *rig) {
				if o := r.send(t, time.Second, text); of(o) != tt.want || o.ProviderMessageID != "" {
					t.Errorf("%+v, want %+v", o, tt.want)
				}
				synctest.Wait()
				if len(got) != tt.at {
					t.Errorf("parts %v were sent, want %d", got, tt.at)
				}
				// The accepted parts' receipts are no message's.
				for i := range byte(2) {
					r.centre.Deliver(t, 100+uint32(i), smpptest.Short("1", "2", 0x04, 0, []byte("id:m-"+string('1'+i)+" stat:DELIVRD")))
				}
				synctest.Wait()
				for len(r.receipts) > 0 {
					if rc := <-r.receipts; rc.MessageID != "" {
						t.Errorf("a receipt says that it was delivered: %+v", rc)
					}
				}
			})
		})
	}
	// A second attempt has the first's reference, so that a phone puts the parts together.
	var references []byte
	inBubble(t, nil, func(r *rig) {
		r.centre.Answer = func(_ int, s smpptest.Submit) (uint32, bool) {
			references = append(references, s.Message[3])
			return uint32(min(0x45, 0x45*(len(references)&2))), true
		}
	}, func(t *testing.T, r *rig) {
		for range 2 {
			r.send(t, time.Second, text)
		}
	})
	if len(references) < 3 || references[0] != references[2] {
		t.Errorf("references of two attempts: %v", references)
	}
}

// TestASessionThatBreaks leaves what was written unknown.
func TestASessionThatBreaks(t *testing.T) {
	for _, tt := range []struct {
		name string
		does providertest.Behaviour
		want outcome
	}{
		{"it is closed", providertest.Behaviour{Break: true}, outcome{provider.Unknown, true, "connection_broken"}},
		{"garbage comes", providertest.Behaviour{Garbage: true}, outcome{provider.Unknown, true, "connection_broken"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, nil, func(t *testing.T, r *rig) {
				r.centre.Do(tt.does)
				if o := r.send(t, time.Second, "x"); of(o) != tt.want {
					t.Errorf("%+v", o)
				}
			})
		})
	}
	t.Run("a generic_nack refuses", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) { r.centre.Answer = func(int, smpptest.Submit) (uint32, bool) { return 0, false } }, func(t *testing.T, r *rig) {
			synctest.Wait()
			go func() {
				time.Sleep(100 * time.Millisecond)
				r.centre.Raw(t, []byte{0, 0, 0, 16, 0x80, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2})
			}()
			if o := r.send(t, time.Second, "x"); of(o) != (outcome{provider.Permanent, false, "ESME_RINVCMDID"}) {
				t.Errorf("%+v", o)
			}
		})
	})
	t.Run("an unbind of the centre's", func(t *testing.T) {
		inBubble(t, nil, nil, func(t *testing.T, r *rig) {
			synctest.Wait()
			r.centre.Raw(t, []byte{0, 0, 0, 16, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9})
			synctest.Wait()
			if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
				t.Errorf("%+v", o)
			}
			if s := r.seen(t); s.Binds != 2 {
				t.Errorf("%+v", s)
			}
		})
	})
}

// TestDeliveries: what comes over the session is answered when it was taken.
func TestDeliveries(t *testing.T) {
	udh := func(n byte) string { return string([]byte{5, 0, 3, 9, 2, n}) }
	for _, tt := range []struct {
		name   string
		body   []byte
		refuse bool
		status uint32
		in     *provider.Inbound
	}{
		{"STOP", smpptest.Short("8613800000000", "10690001", 0, 0, []byte("STOP")), false, 0, &provider.Inbound{From: "+8613800000000", To: "+10690001", Text: "STOP"}},
		{"in UCS-2", smpptest.Short("8613800000000", "10690001", 0, 8, []byte("\x90\x00\x8b\xa2")), false, 0, &provider.Inbound{From: "+8613800000000", To: "+10690001", Text: "退订"}},
		{"in the payload", smpptest.Short("8613800000000", "10690001", 0, 0, nil, smpptest.TLV(0x0424, "STOP")), false, 0, &provider.Inbound{From: "+8613800000000", To: "+10690001", Text: "STOP"}},
		{"the first part of two", smpptest.Short("8613800000000", "10690001", 0x40, 0, []byte(udh(1)+"STOP")), false, 0, &provider.Inbound{From: "+8613800000000", To: "+10690001", Text: "STOP"}},
		{"the second", smpptest.Short("8613800000000", "10690001", 0x40, 0, []byte(udh(2)+"STOP")), false, 0, nil},
		{"it is not taken", smpptest.Short("8613800000000", "10690001", 0, 0, []byte("STOP")), true, 0x64, nil},
		{"an acknowledgement of a phone's", smpptest.Short("1", "2", 0x08, 0, []byte("x")), false, 0, nil},
		{"a notification on the way", smpptest.Short("1", "2", 0x20, 0, []byte("id:1 stat:ENROUTE")), false, 0, nil},
		{"a receipt without an id", smpptest.Short("1", "2", 0x04, 0, []byte("stat:DELIVRD")), false, 0x66, nil},
		{"what cannot be read", []byte("no NUL at all"), false, 0x66, nil},
		{"nothing", nil, false, 0x66, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, nil, func(t *testing.T, r *rig) {
				synctest.Wait()
				r.refuse.Store(tt.refuse)
				r.centre.Deliver(t, 55, tt.body)
				synctest.Wait()
				if s := r.seen(t); len(s.Answers) != 1 || s.Answers[0] != (smpptest.Answer{Command: 0x80000005, Status: tt.status, Sequence: 55}) {
					t.Errorf("the answer is %+v, want status %#x", s.Answers, tt.status)
				}
				if tt.in == nil {
					if len(r.inbound)+len(r.receipts) != 0 {
						t.Errorf("%d messages and %d receipts", len(r.inbound), len(r.receipts))
					}
					return
				}
				tt.in.Channel, tt.in.At = schemas.ChannelSMS, time.Now()
				if len(r.inbound) != 1 {
					t.Fatalf("%d messages", len(r.inbound))
				}
				if in := <-r.inbound; in != *tt.in {
					t.Errorf("%+v\nwant %+v", in, *tt.in)
				}
			})
		})
	}
}

// TestADeliveryIsAnsweredAfterItWasTaken, and meanwhile messages are sent; more than
// can wait are put off.
func TestADeliveryIsAnsweredAfterItWasTaken(t *testing.T) {
	taking, take := make(chan struct{}, 1000), make(chan struct{})
	inBubble(t, nil, func(r *rig) {
		r.deps.Inbound = func(provider.Inbound) error { taking <- struct{}{}; <-take; return nil }
	}, func(t *testing.T, r *rig) {
		take = make(chan struct{}) // of this bubble
		synctest.Wait()
		stop := smpptest.Short("1", "2", 0, 0, []byte("STOP"))
		r.centre.Deliver(t, 1, stop)
		synctest.Wait()
		if s := r.seen(t); len(taking) != 1 || len(s.Answers) != 0 {
			t.Errorf("answered before it was taken: %+v", s.Answers)
		}
		if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
			t.Errorf("meanwhile: %+v", o)
		}
		for i := range uint32(queued + 1) {
			r.centre.Deliver(t, 2+i, stop)
			synctest.Wait()
		}
		if s := r.seen(t); len(s.Answers) != 1 || s.Answers[0].Status != 0x64 {
			t.Errorf("one too many: %+v", s.Answers)
		}
		close(take)
		synctest.Wait()
		if s := r.seen(t); len(s.Answers) != queued+2 {
			t.Errorf("%d answers", len(s.Answers))
		}
	})
}

// TestReceipts go on with all that is known of their message.
func TestReceipts(t *testing.T) {
	known := provider.Receipt{Provider: "centre", MessageID: "m", ProviderMessageID: "m-1", To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Attempt: 1}
	for _, tt := range []struct {
		name string
		set  map[string]any
		id   func(int) string
		text string
		want func(provider.Receipt) provider.Receipt // nil: none
	}{
		{"delivered", nil, nil, "id:m-1 stat:DELIVRD err:000", func(r provider.Receipt) provider.Receipt { r.Status = schemas.StatusDelivered; return r }},
		{"not delivered", nil, nil, "id:m-1 stat:UNDELIV err:034", func(r provider.Receipt) provider.Receipt {
			r.Status, r.Code, r.Text = schemas.StatusUndelivered, "UNDELIV", "state 5: cannot be delivered, err 034"
			return r
		}},
		{"expired", nil, nil, "id:m-1 stat:EXPIRED", func(r provider.Receipt) provider.Receipt {
			r.Status, r.Code, r.Text = schemas.StatusUndelivered, "EXPIRED", "state 3: not delivered within its time"
			return r
		}},
		{"on its way", nil, nil, "id:m-1 stat:ACCEPTD", nil},
		{"nobody knows", nil, nil, "id:m-1 stat:UNKNOWN", nil},
		{"of a message of another process", nil, nil, "id:other stat:DELIVRD", func(provider.Receipt) provider.Receipt {
			return provider.Receipt{Provider: "centre", ProviderMessageID: "other", Channel: schemas.ChannelSMS, Status: schemas.StatusDelivered}
		}},
		{"in decimal", map[string]any{"receipt_ids": "decimal"}, func(int) string { return "C085E0" }, "id:0012617184 stat:DELIVRD", func(r provider.Receipt) provider.Receipt {
			r.Status, r.ProviderMessageID = schemas.StatusDelivered, "12617184"
			return r
		}},
		{"with the centre's clock", map[string]any{"receipt_timezone": "Asia/Shanghai"}, nil, "id:m-1 stat:DELIVRD done date:9912310800", func(r provider.Receipt) provider.Receipt {
			r.Status, r.At = schemas.StatusDelivered, schemas.MillisOf(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
			return r
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.set, func(r *rig) { r.centre.ID = tt.id }, func(t *testing.T, r *rig) {
				if o := r.send(t, time.Second, "x"); o.Kind != provider.Accepted {
					t.Fatalf("%+v", o)
				}
				r.centre.Deliver(t, 5, smpptest.Short("8613800000000", "Weir", 0x04, 0, []byte(tt.text)))
				synctest.Wait()
				if s := r.seen(t); len(s.Answers) != 1 || s.Answers[0].Status != 0 {
					t.Errorf("answered %+v", s.Answers)
				}
				if tt.want == nil {
					if len(r.receipts) != 0 {
						t.Errorf("%+v", <-r.receipts)
					}
					return
				}
				if len(r.receipts) != 1 {
					t.Fatalf("%d receipts", len(r.receipts))
				}
				want := tt.want(known)
				if want.At == 0 {
					want.At = schemas.MillisOf(time.Now())
				}
				if got := <-r.receipts; got != want {
					t.Errorf("%+v\nwant %+v", got, want)
				}
			})
		})
	}
	t.Run("of three parts", func(t *testing.T) {
		inBubble(t, nil, nil, func(t *testing.T, r *rig) {
			if o := r.send(t, time.Second, strings.Repeat("0123456789", 40)); o.Kind != provider.Accepted || o.ProviderMessageID != "m-1" {
				t.Fatalf("%+v", o)
			}
			for i, id := range []string{"m-3", "m-1", "m-2"} {
				if len(r.receipts) != 0 {
					t.Errorf("delivered after %d of 3 parts", i)
				}
				// The form of some centres: optional parameters alone, and no word in esm_class.
				r.centre.Deliver(t, uint32(i+5), smpptest.Short("1", "2", 0, 0, nil, smpptest.TLV(0x001e, id+"\x00"), smpptest.TLV(0x0427, "\x02")))
				synctest.Wait()
			}
			if len(r.receipts) != 1 {
				t.Fatalf("%d receipts", len(r.receipts))
			}
			if rc := <-r.receipts; rc.ProviderMessageID != "m-1" || rc.MessageID != "m" || rc.Status != schemas.StatusDelivered {
				t.Errorf("%+v", rc)
			}
		})
	})
}

// TestAReceiptIsAnsweredWhenItIsSafe, while others are taken, and one that is not made
// safe is asked for again.
func TestAReceiptIsAnsweredWhenItIsSafe(t *testing.T) {
	var mu sync.Mutex
	told := make(map[string]chan error)
	inBubble(t, nil, func(r *rig) {
		r.deps.Told = func(rc provider.Receipt) <-chan error {
			mu.Lock()
			defer mu.Unlock()
			told[rc.ProviderMessageID] = make(chan error, 1)
			return told[rc.ProviderMessageID]
		}
	}, func(t *testing.T, r *rig) {
		synctest.Wait()
		for i, id := range []string{"a", "b", "c"} {
			r.centre.Deliver(t, uint32(i+1), smpptest.Short("1", "2", 0x04, 0, []byte("id:"+id+" stat:DELIVRD")))
			synctest.Wait()
		}
		if s := r.seen(t); len(told) != 3 || len(s.Answers) != 0 {
			t.Fatalf("%d receipts were taken; answered %+v", len(told), s.Answers)
		}
		told["b"] <- errors.New("Kafka is gone")
		synctest.Wait()
		told["a"] <- nil
		synctest.Wait()
		if s := r.seen(t); len(s.Answers) != 2 || s.Answers[0] != (smpptest.Answer{Command: 0x80000005, Status: 0x64, Sequence: 2}) || s.Answers[1] != (smpptest.Answer{Command: 0x80000005, Sequence: 1}) {
			t.Errorf("answered %+v", s.Answers)
		}
		before := time.Now()
		_ = r.Close() // c never gets safe
		if time.Since(before) > unbindWithin {
			t.Errorf("Close took %s", time.Since(before))
		}
	})
}

// TestCloseUnbinds, and does not wait for ever for a centre that says nothing.
func TestCloseUnbinds(t *testing.T) {
	inBubble(t, nil, nil, func(t *testing.T, r *rig) {
		synctest.Wait()
		r.centre.Wire()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if wire := r.centre.Wire(); !strings.Contains(wire, "> unbind ") || !strings.Contains(wire, "< unbind_resp ") {
			t.Errorf("the session ends with\n%s", wire)
		}
	})
	inBubble(t, nil, func(r *rig) {
		r.dial = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				h := make([]byte, 35)
				_, _ = io.ReadFull(far, h)
				_, _ = far.Write([]byte{0, 0, 0, 17, 0x80, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0})
				_, _ = io.Copy(io.Discard, far)
			}()
			return near, nil
		}
	}, func(t *testing.T, r *rig) {
		synctest.Wait()
		before := time.Now()
		_ = r.Close()
		if took := time.Since(before); took != unbindWithin {
			t.Errorf("Close took %s", took)
		}
	})
}
