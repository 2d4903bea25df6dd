package schemas

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestIDs(t *testing.T) {
	const to = "+8613812345678"
	fresh, err := NewID(to)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		id      string
		version uuid.Version
	}{
		{"new", fresh, 7},
		{"derived", DerivedID(Source{"weir.requests", 3, 4711}, testNow, to), 8},
		{"keyed", KeyedID(testNow, "acme", to, "order-17"), 8},
		{"redrive", RedriveID(someUUID, Source{"d", 1, 2}, to), 8},
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
			if got := binary.BigEndian.Uint32(u[12:]); got != Murmur2([]byte(to)) {
				t.Errorf("%s ends in %08x, want the recipient's hash", tt.id, got)
			}
			for _, n := range []int32{1, 8, 32, 100} {
				if p, ok := IDPartition(tt.id, n); !ok || p != PartitionOf(to, n) {
					t.Errorf("partition %d of %d, %v; want %d", p, n, ok, PartitionOf(to, n))
				}
			}
		})
	}
	if _, ok := IDPartition("order-17", 8); ok {
		t.Error("a text that is no UUID has a partition")
	}
	if again, _ := NewID(to); again == fresh {
		t.Error("two new ids are one")
	}
}

func TestDerivedIDsDifferByEverythingTheyAreDerivedFrom(t *testing.T) {
	day := 24 * time.Hour
	noon := Millis(testNow - testNow%Millis(day.Milliseconds())).Add(12 * time.Hour)
	same := [][2]string{
		{DerivedID(Source{"t", 1, 2}, 3, "a"), DerivedID(Source{"t", 1, 2}, 3, "a")},
		{RedriveID("x", Source{"d", 1, 2}, "a"), RedriveID("x", Source{"d", 1, 2}, "a")},
		{KeyedID(noon, "t", "a", "k"), KeyedID(noon.Add(12*time.Hour-time.Millisecond), "t", "a", "k")},
	}
	for _, p := range same {
		if p[0] != p[1] {
			t.Errorf("%s and %s should be one", p[0], p[1])
		}
	}
	seen := map[string]int{}
	for i, id := range []string{
		DerivedID(Source{"t", 1, 2}, 3, "a"), DerivedID(Source{"u", 1, 2}, 3, "a"), DerivedID(Source{"t", 2, 2}, 3, "a"),
		DerivedID(Source{"t", 1, 3}, 3, "a"), DerivedID(Source{"t", 1, 2}, 4, "a"), DerivedID(Source{"t", 1, 2}, 3, "b"),
		KeyedID(noon, "t", "a", "k"), KeyedID(noon.Add(12*time.Hour), "t", "a", "k"), KeyedID(noon, "u", "a", "k"),
		KeyedID(noon, "t", "b", "k"), KeyedID(noon, "t", "a", "l"),
		RedriveID("x", Source{"d", 1, 2}, "a"), RedriveID("y", Source{"d", 1, 2}, "a"), RedriveID("x", Source{"e", 1, 2}, "a"),
		RedriveID("x", Source{"d", 2, 2}, "a"), RedriveID("x", Source{"d", 1, 3}, "a"), RedriveID("x", Source{"d", 1, 2}, "b"),
	} {
		if twin, ok := seen[id]; ok {
			t.Errorf("ids %d and %d are one", twin, i)
		}
		seen[id] = i
	}
}
