package schemas

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestIDs(t *testing.T) {
	const to = "+8613812345678"
	fresh, err := NewID()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		id      string
		version uuid.Version
	}{
		{"new", fresh, 7},
		{"derived", DerivedID(Source{"weir.requests", 3, 4711}, testNow), 8},
		{"keyed", KeyedID(testNow, "acme", to, "order-17"), 8},
		{"redrive", RedriveID(someUUID, Source{"d", 1, 2}), 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := uuid.Parse(tt.id)
			if err != nil {
				t.Fatal(err)
			}
			if u.Version() != tt.version || u.Variant() != uuid.RFC4122 {
				t.Errorf("%s: version %d, variant %s", tt.id, u.Version(), u.Variant())
			}
			if tt.id != strings.ToLower(u.String()) || !validID(tt.id) {
				t.Errorf("%s is not spelt as RFC 9562 does", tt.id)
			}
			if tt.id == LegacyID(tt.id, to) {
				t.Errorf("%s ends in the recipient's hash, of which the number can be found", tt.id)
			}
		})
	}
	if again, _ := NewID(); again == fresh {
		t.Error("two new ids are one")
	}
}

// TestLegacyIDs: the ids of earlier versions, as their logs have them.
func TestLegacyIDs(t *testing.T) {
	const to = "+8613812345678"
	src := Source{"weir.dlq", 2, 17}
	const old, was = "0192f3c4-5d6e-7f80-8a9b-0c1d2e3f4a5b", "eef0caa0-f1de-8598-9fa4-cb988f94c065"
	if got := LegacyID(RedriveID(old, src), to); got != was {
		t.Errorf("%s, want %s", got, was)
	}
	for _, id := range []string{was, RedriveID(old, src)} {
		e := Envelope{Reason: ReadmitRedrive, ID: id, Key: to, Origin: src, RedriveOf: old}
		if !e.Redrives(PartitionOf(to, 4), 4) {
			t.Errorf("%s is no redrive's", id)
		}
	}
	if got := LegacyID("order-17", to); got != "order-17" {
		t.Errorf("%s", got)
	}
}

func TestDerivedIDsDifferByEverythingTheyAreDerivedFrom(t *testing.T) {
	day := 24 * time.Hour
	noon := Millis(testNow - testNow%Millis(day.Milliseconds())).Add(12 * time.Hour)
	same := [][2]string{
		{DerivedID(Source{"t", 1, 2}, 3), DerivedID(Source{"t", 1, 2}, 3)},
		{RedriveID("x", Source{"d", 1, 2}), RedriveID("x", Source{"d", 1, 2})},
		{KeyedID(noon, "t", "a", "k"), KeyedID(noon.Add(12*time.Hour-time.Millisecond), "t", "a", "k")},
	}
	for _, p := range same {
		if p[0] != p[1] {
			t.Errorf("%s and %s should be one", p[0], p[1])
		}
	}
	seen := map[string]int{}
	for i, id := range []string{
		DerivedID(Source{"t", 1, 2}, 3), DerivedID(Source{"u", 1, 2}, 3), DerivedID(Source{"t", 2, 2}, 3),
		DerivedID(Source{"t", 1, 3}, 3), DerivedID(Source{"t", 1, 2}, 4),
		KeyedID(noon, "t", "a", "k"), KeyedID(noon.Add(12*time.Hour), "t", "a", "k"), KeyedID(noon, "u", "a", "k"),
		KeyedID(noon, "t", "b", "k"), KeyedID(noon, "t", "a", "l"),
		RedriveID("x", Source{"d", 1, 2}), RedriveID("y", Source{"d", 1, 2}), RedriveID("x", Source{"e", 1, 2}),
		RedriveID("x", Source{"d", 2, 2}), RedriveID("x", Source{"d", 1, 3}),
	} {
		if twin, ok := seen[id]; ok {
			t.Errorf("ids %d and %d are one", twin, i)
		}
		seen[id] = i
	}
}
