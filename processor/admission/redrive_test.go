package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// dead is where a message's record stands in the DLQ.
var dead = schemas.Source{Topic: "weir.dlq", Partition: 2, Offset: 17}

const redriveTo = "+8613800000000"

func redrive(old string) schemas.Envelope {
	return schemas.Envelope{ID: schemas.RedriveID(old, dead), Key: redriveTo, Tenant: "default", Origin: dead,
		Reason: schemas.ReadmitRedrive, RedriveOf: old, Timestamp: 7, RequestKey: "own"}
}

// TestRedriveIsAMessageLikeAnyOther: with an id of its own, no key, no times of
// the first message, and the limits' word.
func TestRedriveIsAMessageLikeAnyOther(t *testing.T) {
	b := newBench(t)
	past, future := b.now.Add(-time.Minute), b.now.Add(time.Hour)
	body := fmt.Sprintf(`{"channel":"sms","to":"+8613800000000","class":"code","body":"x","id":%q,"idempotency_key":"k","send_at":%q,"expires_at":%q}`, uuid.NewString(), future, past)
	env := redrive("old")
	o := b.want(b.decide(&input{readmit: true, value: []byte(body), env: env}), "queued admit +1 > dispatch.one.normal")
	e, out := o.event, o.send[0].env
	if e.MessageID != env.ID || e.RedriveOf != "old" || e.AcceptedAt != b.now || *e.Source != *e.Decision.Input {
		t.Errorf("its status: %+v", e)
	}
	if out.ID != env.ID || out.RedriveOf != "old" || out.ExpiresAt != b.now.Add(5*time.Minute) || out.AcceptedAt != b.now || out.Attempt != 0 ||
		out.Origin != *e.Source || out.Timestamp != 7 || out.RequestKey != "own" || out.Reason != "" {
		t.Errorf("it goes on as %+v", out)
	}
	// The place is taken.
	b.want(b.request(code), "limited refuse limited")
	// The key in its bytes names nothing.
	b.now += 60_000
	b.want(b.request(`{"channel":"sms","to":"+8613800000000","class":"code","body":"other","idempotency_key":"k"}`), "queued admit +1 > dispatch.one.normal")
	// Asked for again it changes nothing, for a day.
	b.now += 60_000
	b.want(b.decide(&input{readmit: true, value: []byte(body), env: env}), "decision duplicate repeated")
	b.now += 23 * 3_600_000
	b.want(b.decide(&input{readmit: true, value: []byte(body), env: env}), "decision duplicate repeated")
	// A retry of it does not fall back to what the bytes say.
	retry := o.send[0]
	again := b.back(schemas.ReadmitRetry, retry, body, func(e *schemas.Envelope) { e.Attempt, e.ExpiresAt = 1, b.now.Add(time.Minute) })
	b.want(again, "queued move +1 ?1 > dispatch.one.again")
	if again.event.RedriveOf != "old" {
		t.Errorf("its retry forgets what it sends again: %+v", again.event)
	}
}

func TestRedriveRefusedByALimitEndsOnce(t *testing.T) {
	b := newBench(t)
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	env := redrive("old")
	b.want(b.decide(&input{readmit: true, value: []byte(code), env: env}), "limited refuse limited")
	b.now += 60_000
	b.want(b.decide(&input{readmit: true, value: []byte(code), env: env}), "decision duplicate repeated")
}

// TestRedriveAcrossAnUpgrade: an earlier version derived another id from the same
// record. Whoever asks in one form after the other asks for one message.
func TestRedriveAcrossAnUpgrade(t *testing.T) {
	earlier := redrive("old")
	earlier.ID = schemas.LegacyID(earlier.ID, redriveTo)
	for name, asked := range map[string][2]schemas.Envelope{
		"the earlier form first": {earlier, redrive("old")},
		"the earlier form last":  {redrive("old"), earlier},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.want(b.decide(&input{readmit: true, value: []byte(code), env: asked[0]}), "queued admit +1 > dispatch.one.normal")
			b.now += 60_000
			o := b.want(b.decide(&input{readmit: true, value: []byte(code), env: asked[1]}), "decision duplicate repeated")
			if o.event.MessageID != asked[1].ID || o.event.DuplicateOf != asked[0].ID {
				t.Errorf("%+v", o.event)
			}
		})
	}
}

func TestRedriveThatWaits(t *testing.T) {
	b := newBench(t)
	b.apply(2, `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s], on_refusal: defer}
providers:
  - {name: one, type: simulated, channels: [sms]}
`)
	body := `{"channel":"sms","to":"+8613800000000","class":"code","body":"x","send_at":"` + b.now.Add(time.Hour).String() + `"}`
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	o := b.want(b.decide(&input{readmit: true, value: []byte(body), env: redrive("old")}), "deferred defer limited > delay.30s")
	b.now += 60_000
	b.want(b.back(schemas.ReadmitDue, o.send[0], body, nil), "queued admit +1 > dispatch.one.normal")
}

// TestRedriveThatIsNone: whoever may write readmit still cannot make a message
// under an id of his choice, twice from one record, or with a place.
func TestRedriveThatIsNone(t *testing.T) {
	for name, change := range map[string]func(*input){
		"another id":       func(in *input) { in.env.ID = schemas.DerivedID(dead, 1) },
		"no old id":        func(in *input) { in.env.RedriveOf = "" },
		"another position": func(in *input) { in.env.Origin.Offset++ },
		"with a place":     func(in *input) { in.env.Place = []schemas.Charge{{Limit: "code", Scope: redriveTo, T: 1, Cost: 1}} },
		"with an attempt":  func(in *input) { in.env.Attempt = 1 },
		"with a taint":     func(in *input) { in.env.Taint = schemas.TaintUnknown },
		"no request":       func(in *input) { in.value = []byte("hello") },
		"another tenant":   func(in *input) { in.env.Tenant = "acme" },
		"an action":        func(in *input) { in.value = []byte(`{"action":"suppress","to":"+8613800000000"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			in := &input{readmit: true, value: []byte(code), env: redrive("old")}
			change(in)
			b.want(b.decide(in), "decision nothing foreign_record > dlq")
			b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		})
	}
	t.Run("another partition", func(t *testing.T) {
		env := redrive("old")
		own := schemas.PartitionOf(redriveTo, 4)
		if !env.Redrives(own, 4) || env.Redrives((own+1)%4, 4) {
			t.Error("it is taken by a partition that does not own the recipient")
		}
	})
}

// TestRejectedRedriveIsRejectedOnce: its content cannot be made under the policy
// of the day; it goes to the DLQ as the message that it is now.
func TestRejectedRedriveIsRejectedOnce(t *testing.T) {
	b := newBench(t)
	body := `{"channel":"sms","to":"+8613800000000","template":"gone"}`
	o := b.want(b.decide(&input{readmit: true, value: []byte(body), env: redrive("old")}), "rejected reject unknown_template > dlq")
	if env := o.send[0].env; env.ID != redrive("old").ID || env.RedriveOf != "old" || env.Timestamp != 7 || env.RequestKey != "own" {
		t.Errorf("in the DLQ as %+v", env)
	}
	b.want(b.decide(&input{readmit: true, value: []byte(body), env: redrive("old")}), "decision duplicate repeated")
}
