package schemas

import "testing"

// The values of Kafka's own tests of Utils.murmur2 (Java's int, hence signed).
func TestMurmur2IsKafkas(t *testing.T) {
	for text, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(Murmur2([]byte(text))); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestPartition(t *testing.T) {
	tests := []struct {
		hash uint32
		n    int32
		want int32
	}{
		{0, 8, 0},
		{7, 8, 7},
		{8, 8, 0},
		{0xffffffff, 8, 7}, // toPositive drops the sign bit, it does not negate
		{0x80000000, 8, 0}, // the smallest int
		{0xc5f2f8ec, 7, 3}, // "21": (-973932308 & 0x7fffffff) % 7 = 1173551340 % 7
		{1, 1, 0},
	}
	for _, tt := range tests {
		if got := Partition(tt.hash, tt.n); got != tt.want {
			t.Errorf("Partition(%#x, %d) = %d, want %d", tt.hash, tt.n, got, tt.want)
		}
	}
	if got := PartitionOf("21", 7); got != 3 {
		t.Errorf(`PartitionOf("21", 7) = %d, want 3`, got)
	}
}
