package e2e

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Each client's choice, by hand. FNV-1a of "a" is e40c292c, of "foobar" bf9cf968,
// both negative; CRC-32 of "a" is e8b7be43; murmur2 of "foobar" is -790332482, of
// which Java takes the lower 31 bits.
func TestPartitionersOfOtherClients(t *testing.T) {
	for name, c := range map[string]struct {
		p    kgo.Partitioner
		key  string
		n    int
		want int
	}{
		"FNV-1a, remainder without its sign":      {FNV1a, "a", 8, 468_965_076 % 8},
		"FNV-1a, another count":                   {FNV1a, "foobar", 7, 1_080_231_576 % 7},
		"CRC-32, unsigned":                        {CRC32, "a", 7, 0xe8b7be43 % 7},
		"murmur2, as kafka-clients chooses for 8": {Murmur2, "foobar", 8, 1_357_151_166 % 8},
	} {
		if got := c.p.ForTopic("t").Partition(&kgo.Record{Key: []byte(c.key)}, c.n); got != c.want {
			t.Errorf("%s: partition %d of %d, want %d", name, got, c.n, c.want)
		}
	}
}
