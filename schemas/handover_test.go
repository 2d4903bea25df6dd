package schemas

import "testing"

func TestKeepsQueues(t *testing.T) {
	of := func(name, kind string) *Policy { return &Policy{Providers: []Provider{{Name: name, Type: kind}}} }
	for _, tt := range []struct {
		before, after string
		want          bool
	}{
		{"http", "simulated", true},
		{"http", "external", false},
		{"external", "http", false},
		{"external", "external", true},
		{"none", "http", true},
		{"http", "none", true},
		{"none", "external", true},
		{"external", "none", true},
	} {
		if err := of("p", tt.after).KeepsQueues(of("p", tt.before)); (err == nil) != tt.want {
			t.Errorf("from %s to %s: %v", tt.before, tt.after, err)
		}
		if err := of("q", tt.after).KeepsQueues(of("p", tt.before)); err != nil {
			t.Errorf("another provider: %v", err)
		}
	}
}

// TestSettingsOfWhatIsNotCalled: who sends receipts, and nothing else.
func TestSettingsOfWhatIsNotCalled(t *testing.T) {
	for _, typ := range []string{ProviderExternal, ProviderNone} {
		for settings, ok := range map[string]bool{
			`{receipt_secret: "${OWN}"}`: true, `{sign: {secret: "${OWN}", header: X-Sig}}`: true,
			`{receipt_secret: plain-text-secret}`: false, `{url: "http://x"}`: false,
		} {
			_, err := ParsePolicy("p.yaml", []byte("providers:\n  - {name: own, type: "+typ+", channels: [sms], settings: "+settings+"}\n"))
			if (err == nil) != ok {
				t.Errorf("%s %s: %v", typ, settings, err)
			}
		}
	}
	// A variable of the message's is no secret, whatever it goes to.
	if _, err := ParsePolicy("p.yaml", []byte("providers:\n  - {name: own, type: http, channels: [push], settings: {url: \"http://x\", request: {json: {token: \"{{to}}\"}}}}\n")); err != nil {
		t.Error(err)
	}
	if _, err := ParsePolicy("p.yaml", []byte("providers:\n  - {name: own, type: http, channels: [push], settings: {url: \"http://x\", request: {json: {token: \"abc{{to}}\"}}}}\n")); err == nil {
		t.Error("a token in plain text is taken")
	}
}
