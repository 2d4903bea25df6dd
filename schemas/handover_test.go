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
