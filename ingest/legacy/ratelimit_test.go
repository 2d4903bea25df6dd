package legacy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

func policyOf(t testing.TB, text string) *schemas.Policy {
	t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &doc.Policy
}

const providers = `
providers:
  - {name: ali, type: simulated, channels: [sms], legacy_id: 1}
  - {name: tencent, type: simulated, channels: [sms], legacy_id: 20}
  - {name: new, type: simulated, channels: [sms]}
`

// stored is a policy as it comes back from weir.config, checked like a file.
func stored(t interface{ Fatal(...any) }, p *schemas.Policy) *schemas.Policy {
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := schemas.ParsePolicy("stored.json", b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limit.Compile(&doc.Policy, nil); err != nil {
		t.Fatal(err)
	}
	return &doc.Policy
}

// TestAnyOrderOfCalls: whatever is posted, put and deleted, what the API shows is
// what a plain list of its objects would, through any number of revisions; and
// the policy has always a limit for exactly those that limit something.
func TestAnyOrderOfCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &schemas.Policy{Providers: []schemas.Provider{
			{Name: "ali", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}, LegacyID: 1},
			{Name: "tencent", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}, LegacyID: 20},
		}, Limits: []schemas.Limit{{Name: "legacy-2", Per: []string{"recipient"}, Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: schemas.LegacyWindows[1]}}}}}
		model := map[int64]map[string]any{}
		body := func(t *rapid.T) map[string]any {
			b := map[string]any{}
			for _, name := range []string{"requestsPerSecond", "requestsPerMinute", "requestsPerHour"} {
				if rapid.Bool().Draw(t, name) {
					b[name] = rapid.SampledFrom([]float64{0, 0, 1, 500, schemas.MaxRolling}).Draw(t, name)
				}
			}
			if rapid.Bool().Draw(t, "has manufacturer") {
				b["manufacturerId"] = rapid.SampledFrom([]any{nil, float64(1), float64(20)}).Draw(t, "manufacturer")
			}
			if rapid.Bool().Draw(t, "has enabled") {
				b["isEnabled"] = rapid.Bool().Draw(t, "enabled")
			}
			return b
		}
		encode := func(v any) []byte {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		some := func(t *rapid.T) int64 { return rapid.Int64Range(0, int64(len(model))+2).Draw(t, "id") }
		t.Repeat(map[string]func(*rapid.T){
			"post": func(t *rapid.T) {
				b := body(t)
				next, made, err := legacy.Create(p, encode(b))
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]any{"id": float64(made.ID), "manufacturerId": nil, "requestsPerSecond": 0.0, "requestsPerMinute": 0.0, "requestsPerHour": 0.0, "isEnabled": true}
				maps.Copy(want, b)
				if _, taken := model[made.ID]; taken {
					t.Fatalf("id %d is taken", made.ID)
				}
				model[made.ID], p = want, next
			},
			"put": func(t *rapid.T) {
				id, b := some(t), body(t)
				next, _, err := legacy.Change(p, id, encode(b))
				if _, there := model[id]; !there {
					if !errors.Is(err, legacy.ErrNotFound) {
						t.Fatalf("%d: %v", id, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(model[id], b)
				p = next
			},
			"delete": func(t *rapid.T) {
				id := some(t)
				next, err := legacy.Remove(p, id)
				if _, there := model[id]; there != (err == nil) {
					t.Fatalf("%d: %v", id, err)
				}
				if err == nil {
					p = next
					delete(model, id)
				}
			},
			"": func(t *rapid.T) {
				p = stored(t, p)
				var got []map[string]any
				if err := json.Unmarshal(encode(legacy.RateLimits(p)), &got); err != nil {
					t.Fatal(err)
				}
				var want []map[string]any
				for _, id := range slices.Sorted(maps.Keys(model)) {
					want = append(want, model[id])
					one, err := legacy.Find(p, id)
					if err != nil || cmp.Diff(want[len(want)-1], asMap(t, encode(one))) != "" {
						t.Fatalf("%d alone is shown as %+v: %v", id, one, err)
					}
				}
				if len(got) == 0 {
					got = nil
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
				for i := range p.Limits {
					m, legacyLimit := model[p.Limits[i].LegacyID]
					if !legacyLimit {
						continue
					}
					limits := m["isEnabled"] == true && (m["requestsPerSecond"] != 0.0 || m["requestsPerMinute"] != 0.0 || m["requestsPerHour"] != 0.0)
					if p.Limits[i].Off() == limits {
						t.Fatalf("%v is %+v", m, p.Limits[i])
					}
				}
			},
		})
	})
}

func asMap(t interface{ Fatal(...any) }, b []byte) (m map[string]any) {
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The limit that the old system's documents make is the one that the policy gets.
func TestWhatThePolicyGets(t *testing.T) {
	p := policyOf(t, providers)
	p, global, err := legacy.Create(p, []byte(`{"manufacturerId": null, "requestsPerSecond": 10, "requestsPerMinute": 500, "requestsPerHour": 10000, "isEnabled": true}`))
	if err != nil {
		t.Fatal(err)
	}
	p, ali, err := legacy.Create(p, []byte(`{"ManufacturerId": 1, "RequestsPerMinute": 2e2, "isEnabled": false, "createdAt": "2026-01-01"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := policyOf(t, `
limits:
  - {name: legacy-1, per: [], allow: [10/1s, 500/1m, 10000/1h], legacy_id: 1}
  - {name: legacy-2, match: {provider: ali}, per: [provider], allow: [200/1m], mode: off, legacy_id: 2}
`+providers)
	if diff := cmp.Diff(want.Limits, p.Limits); diff != "" || global.ID != 1 || ali.ID != 2 {
		t.Errorf("%s\n%+v %+v", diff, global, ali)
	}
	before := slices.Clone(p.Limits)
	next, changed, err := legacy.Change(p, 1, []byte(`{"requestsPerMinute": 600}`))
	if err != nil || changed.RequestsPerMinute != 600 || changed.RequestsPerSecond != 10 || next.Limits[0].Name != "legacy-1" || next.Limits[0].Allow[1].N != 600 {
		t.Errorf("%+v %+v: %v", changed, next.Limits[0], err)
	}
	if diff := cmp.Diff(before, p.Limits); diff != "" {
		t.Errorf("the policy that was given has changed: %s", diff)
	}
}

func TestRefusesInPlainWords(t *testing.T) {
	p := policyOf(t, "limits: [{name: legacy-1, per: [], allow: [1/1s], legacy_id: 1}]\n"+providers)
	for _, c := range []struct{ body, want string }{
		{`[]`, "不是有效的 JSON 对象"},
		{`null`, "不是有效的 JSON 对象"},
		{`{"isEnabled": true`, "不是有效的 JSON 对象"},
		{"{\"isEnabled\": true, \"a\": \"\xff\"}", "不是有效的 JSON 对象"},
		{`{"requestsPerSecond": -1}`, "requestsPerSecond 必须为 0（不限制）到 "},
		{`{"requestsPerMinute": 1.5}`, "requestsPerMinute 必须为"},
		{`{"requestsPerHour": "10"}`, "requestsPerHour 必须为"},
		{`{"requestsPerHour": null}`, "requestsPerHour 必须为"},
		{fmt.Sprintf(`{"requestsPerHour": %d}`, schemas.MaxRolling+1), "requestsPerHour 必须为"},
		{`{"requestsPerHour": 1e300}`, "requestsPerHour 必须为"},
		{`{"isEnabled": 1}`, "isEnabled 必须为 true 或 false"},
		{`{"manufacturerId": 9}`, "manufacturerId 必须为 null（全局限制），或已有厂商的编号：1（ali）、20（tencent）"},
		{`{"manufacturerId": 0}`, "manufacturerId 必须为"},
		{`{"manufacturerId": "1"}`, "manufacturerId 必须为"},
		{`{"manufacturerId": 9, "requestsPerHour": -1, "isEnabled": 0}`, "（tencent）；requestsPerHour 必须为 0（不限制）到 100000 的整数；isEnabled"},
	} {
		_, _, err1 := legacy.Create(p, []byte(c.body))
		_, _, err2 := legacy.Change(p, 1, []byte(c.body))
		for _, err := range []error{err1, err2} {
			bad, ok := errors.AsType[*legacy.Invalid](err)
			if !ok || !strings.Contains(bad.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.body, err, c.want)
			}
		}
	}
	if _, _, err := legacy.Create(&schemas.Policy{}, []byte(`{"manufacturerId": 1}`)); err == nil || !strings.Contains(err.Error(), "目前没有厂商有编号") {
		t.Error(err)
	}
}

func TestRefusal(t *testing.T) {
	for window, want := range map[string]string{
		"10/1s": "超出每秒请求限制 (10)", "200/60s": "超出每分钟请求限制 (200)", "200/1m": "超出每分钟请求限制 (200)", "5000/1h": "超出每小时请求限制 (5000)",
		"1/5m": "超出每5分钟请求限制 (1)", "3/90m": "超出每90分钟请求限制 (3)", "5/7d": "超出每7天请求限制 (5)", "1/1500ms": "超出每1500毫秒请求限制 (1)",
		"1/calendar-minute": "超出每自然分钟请求限制 (1)", "2/calendar-hour": "超出每自然小时请求限制 (2)", "10/calendar-day": "超出每日请求限制 (10)", "99/calendar-month": "超出每月请求限制 (99)",
		"bucket 10 refill 0.5/s": "超出速率桶请求限制 (10)", "": "超出请求限制", "?": "超出请求限制",
	} {
		if got := legacy.Refusal(window); got != want {
			t.Errorf("%q: %q, want %q", window, got, want)
		}
	}
}
