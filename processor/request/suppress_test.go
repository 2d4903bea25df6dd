package request

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// TestSuppress: what a stage writes is what admission reads, and is a request that
// it takes.
func TestSuppress(t *testing.T) {
	now := schemas.MillisOf(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	meta := func(of ...string) map[string]string {
		m := make(map[string]string)
		for i := 0; i < len(of); i += 2 {
			m[of[i]] = of[i+1]
		}
		return m
	}
	for name, tt := range map[string]struct {
		value []byte
		want  schemas.Request
	}{
		"a hard bounce": {
			Suppress("a@example.com", "acme", schemas.ChannelEmail, "", schemas.SuppressHardBounce, "ses"),
			schemas.Request{Action: schemas.ActionSuppress, To: "a@example.com", Tenant: "acme", Channel: schemas.ChannelEmail, Metadata: meta("reason", "hard_bounce", "provider", "ses")},
		},
		"a class": {
			Suppress("+8613812345678", "acme", schemas.ChannelSMS, "marketing", schemas.SuppressStop, "aliyun"),
			schemas.Request{Action: schemas.ActionSuppress, To: "+8613812345678", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "marketing", Metadata: meta("reason", "stop", "provider", "aliyun")},
		},
		"everything, by nobody, for no reason": {
			Suppress("+8613812345678", "", "", "", "", ""),
			schemas.Request{Action: schemas.ActionSuppress, To: "+8613812345678"},
		},
		"a START word": {
			Unsuppress("+8613812345678", "acme", schemas.ChannelSMS, "", "start", "aliyun"),
			schemas.Request{Action: schemas.ActionUnsuppress, To: "+8613812345678", Tenant: "acme", Channel: schemas.ChannelSMS, Metadata: meta("reason", "start", "provider", "aliyun")},
		},
		"a recipient that wants escaping": {
			Suppress("https://a.example/\"<&\\", "acme", schemas.ChannelWebhook, "", schemas.SuppressInvalid, "hooks"),
			schemas.Request{Action: schemas.ActionSuppress, To: "https://a.example/\"<&\\", Tenant: "acme", Channel: schemas.ChannelWebhook, Metadata: meta("reason", "invalid", "provider", "hooks")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := schemas.DecodeRequest(tt.value, nil)
			if err != nil {
				t.Fatalf("%v in %s", err, tt.value)
			}
			if d := cmp.Diff(&tt.want, got); d != "" {
				t.Error(d)
			}
			if err := got.Validate(now); err != nil {
				t.Errorf("%v in %s", err, tt.value)
			}
		})
	}
}
