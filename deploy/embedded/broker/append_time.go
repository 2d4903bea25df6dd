package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StampAppendTime makes a kfake cluster give every record the time at which it is
// appended, as LogAppendTime does on Apache Kafka. kfake takes the setting
// message.timestamp.type, describes it, and ignores it.
//
// It applies to every topic, whatever its setting. The records' timestamps are
// replaced on their way in; the batch's type stays CreateTime, because kfake
// damages the checksum of batches that it stamps itself.
func StampAppendTime(cluster *kfake.Cluster) error {
	return StampAppendTimes(cluster, func(string) time.Time { return time.Now() })
}

// StampAppendTimes is StampAppendTime where each topic's leaders have a clock of their own.
func StampAppendTimes(cluster *kfake.Cluster, clock func(topic string) time.Time) error {
	lz4, err := kgo.DefaultCompressor(kgo.Lz4Compression())
	if err != nil {
		return fmt.Errorf("append time: %w", err)
	}
	s := stamper{compress: lz4, decompress: kgo.DefaultDecompressor()}
	cluster.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce := req.(*kmsg.ProduceRequest)
		for i := range produce.Topics {
			now := clock(produce.Topics[i].Topic).UnixMilli()
			for j := range produce.Topics[i].Partitions {
				p := &produce.Topics[i].Partitions[j]
				// What cannot be read stays as it is: kfake refuses it.
				if stamped, ok := s.stamp(p.Records, now); ok {
					p.Records = stamped
				}
			}
		}
		return nil, nil, false
	})
	return nil
}

type stamper struct {
	compress   kgo.Compressor
	decompress kgo.Decompressor
}

// Offsets into a record batch of version 2 (KIP-98), and bits of its attributes.
const (
	atLength     = 8
	atMagic      = 16
	atChecksum   = 17
	atAttributes = 21
	atFirstTime  = 27
	atMaxTime    = 35
	atRecords    = 61

	codecBits = 0x07
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp returns the batch with all records at now, in Unix milliseconds, or false
// if it is not one whole batch with a true checksum.
func (s stamper) stamp(batch []byte, now int64) ([]byte, bool) {
	if len(batch) < atRecords || batch[atMagic] != 2 ||
		int(binary.BigEndian.Uint32(batch[atLength:])) != len(batch)-atMagic+4 ||
		binary.BigEndian.Uint32(batch[atChecksum:]) != crc32.Checksum(batch[atAttributes:], castagnoli) {
		return nil, false
	}
	attributes := binary.BigEndian.Uint16(batch[atAttributes:])
	codec := kgo.CompressionCodecType(attributes & codecBits)
	records := batch[atRecords:]
	if codec != kgo.CodecNone {
		plain, err := s.decompress.Decompress(records, codec)
		if err != nil {
			return nil, false
		}
		records = plain
	}
	records, ok := flatten(records)
	if !ok {
		return nil, false
	}
	if codec != kgo.CodecNone {
		records, codec = s.compress.Compress(new(bytes.Buffer), records)
		if codec < 0 {
			return nil, false
		}
	}
	out := append(bytes.Clone(batch[:atRecords]), records...)
	binary.BigEndian.PutUint32(out[atLength:], uint32(len(out)-atMagic+4))
	binary.BigEndian.PutUint16(out[atAttributes:], attributes&^codecBits|uint16(codec))
	binary.BigEndian.PutUint64(out[atFirstTime:], uint64(now))
	binary.BigEndian.PutUint64(out[atMaxTime:], uint64(now))
	binary.BigEndian.PutUint32(out[atChecksum:], crc32.Checksum(out[atAttributes:], castagnoli))
	return out, true
}

// flatten sets every record's time difference to the batch's first time to zero.
// A record is its length, an attribute byte, that difference, and the rest.
func flatten(records []byte) ([]byte, bool) {
	out := make([]byte, 0, len(records))
	for len(records) > 0 {
		length, n := binary.Varint(records) // zigzag, as Kafka's varint
		if n <= 0 || length < 2 || length > int64(len(records)-n) {
			return nil, false
		}
		record := records[n : n+int(length)]
		records = records[n+int(length):]
		_, d := binary.Varint(record[1:])
		if d <= 0 {
			return nil, false
		}
		out = binary.AppendVarint(out, length-int64(d)+1)
		out = append(out, record[0], 0)
		out = append(out, record[1+d:]...)
	}
	return out, true
}
