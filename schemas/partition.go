package schemas

// Murmur2 is the 32-bit hash of Kafka's default partitioner
// (org.apache.kafka.common.utils.Utils.murmur2). It decides which partition
// owns a recipient, whatever partitioner a producer used. It is no secret: whoever
// has the 32 bits can find the phone number that they are of.
func Murmur2(b []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(b))
	for len(b) >= 4 {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		b = b[4:]
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// Partition returns the partition of n that owns a key with this Murmur2 hash,
// as Kafka's Java client computes it: toPositive(hash) % n.
func Partition(hash uint32, n int32) int32 { return int32(hash&0x7fffffff) % n }

// PartitionOf returns the partition of n that owns key.
func PartitionOf(key string, n int32) int32 { return Partition(Murmur2([]byte(key)), n) }
