package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Bounded bounds what a client decompresses. Every client that consumes has it.
func Bounded() kgo.Opt { return kgo.MaxDecompressBatchBytes(schemas.MaxBatchBytes) }

// Oversized reports whether a consumer stopped at a batch beyond the bound. The error says
// which offsets the batch has.
func Oversized(err error) (*kgo.ErrDecompressTooLarge, bool) {
	return errors.AsType[*kgo.ErrDecompressTooLarge](err)
}

// PassOversized lets a client that is in no group go on behind a batch beyond the bound at
// which it stopped, and reports whether err was that.
func PassOversized(cl *kgo.Client, err error) bool {
	at, ok := Oversized(err)
	if ok {
		cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{at.Topic: {at.Partition: {Epoch: at.Epoch, Offset: at.NextOffset}}})
	}
	return ok
}

// SkipOversized is for a ReadConfig whose reader can do without such batches.
func SkipOversized(*kgo.Record) error { return nil }

// batchKey marks the record that ReadConfig.Oversized gets, in its context.
type batchKey struct{}

// IsBatch reports whether a record is a batch beyond the bound, as ReadConfig.Oversized
// gets it: at the batch's first offset, its value the batch's bytes as they are in the log.
func IsBatch(r *kgo.Record) bool { return r.Context != nil && r.Context.Value(batchKey{}) != nil }

// batchOf finds a batch beyond the bound in what a fetch brought.
func batchOf(at *kgo.ErrDecompressTooLarge, fetched []byte) *kgo.Record {
	const header = 61 // of a batch; the first 21 bytes are not its content
	r := &kgo.Record{Context: context.WithValue(context.Background(), batchKey{}, true), Topic: at.Topic, Partition: at.Partition, Offset: at.Offset, LeaderEpoch: at.Epoch}
	for len(fetched) >= header {
		n := 12 + int64(binary.BigEndian.Uint32(fetched[8:]))
		if n < header || n > int64(len(fetched)) {
			break
		}
		if int64(binary.BigEndian.Uint64(fetched)) == at.Offset {
			r.Value, r.Timestamp = fetched[21:n], time.UnixMilli(int64(binary.BigEndian.Uint64(fetched[35:])))
			break
		}
		fetched = fetched[n:]
	}
	return r
}

// unreadKey is where the record that stands for a batch beyond the bound has the batch's
// first offset: in its context, which no producer can write.
type unreadKey struct{}

// IsUnread reports whether a record stands for a batch beyond the bound.
func IsUnread(r *kgo.Record) bool {
	_, is := unreadFrom(r)
	return is
}

func unreadFrom(r *kgo.Record) (int64, bool) {
	if r.Context == nil || r.Key != nil || r.Value != nil {
		return 0, false
	}
	from, is := r.Context.Value(unreadKey{}).(int64)
	return from, is
}

// Unread is the record that stands for a batch beyond the bound: empty, at the batch's last
// offset.
func Unread(at *kgo.ErrDecompressTooLarge) *kgo.Record {
	return &kgo.Record{Context: context.WithValue(context.Background(), unreadKey{}, at.Offset), Topic: at.Topic, Partition: at.Partition, Offset: at.NextOffset - 1, LeaderEpoch: at.Epoch, Timestamp: time.Now()}
}

func unreadPoison(r *kgo.Record, from int64) *Poison {
	return &Poison{Reason: schemas.ReasonBatchTooLarge, Batch: true,
		Err: fmt.Errorf("the batch of the offsets %d to %d of %s/%d was not read: it decompresses to more than %d MiB", from, r.Offset, r.Topic, r.Partition, schemas.MaxBatchBytes>>20)}
}

// decompressor is kgo's with the bound, for the reader, which has no consumer.
type decompressor struct {
	zstd, gzip, lz4 sync.Pool
}

var bounded = &decompressor{zstd: sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(schemas.MaxBatchBytes))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}}, gzip: sync.Pool{New: func() any { return new(gzip.Reader) }}, lz4: sync.Pool{New: func() any { return lz4.NewReader(nil) }}}

var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// Decompress implements kgo.Decompressor.
func (d *decompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch codec {
	case kgo.CodecNone:
		return src, nil
	case kgo.CodecZstd:
		z := d.zstd.Get().(*zstd.Decoder)
		defer d.zstd.Put(z)
		out, err := z.DecodeAll(src, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, kgo.ErrMaxDecompress
		}
		return out, err
	case kgo.CodecGzip:
		z := d.gzip.Get().(*gzip.Reader)
		defer d.gzip.Put(z)
		if err := z.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		return read(z)
	case kgo.CodecLz4:
		z := d.lz4.Get().(*lz4.Reader)
		defer d.lz4.Put(z)
		z.Reset(bytes.NewReader(src))
		return read(z)
	case kgo.CodecSnappy:
		if bytes.HasPrefix(src, xerial) {
			return unblock(src)
		}
		return snap(nil, src)
	}
	return nil, fmt.Errorf("unknown compression codec %d", codec)
}

func read(from io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(from, schemas.MaxBatchBytes+1))
	if err == nil && len(out) > schemas.MaxBatchBytes {
		err = kgo.ErrMaxDecompress
	}
	return out, err
}

// snap appends what a block of snappy decompresses to.
func snap(out, src []byte) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if n > schemas.MaxBatchBytes-len(out) {
		return nil, kgo.ErrMaxDecompress
	}
	block, err := s2.Decode(nil, src)
	return append(out, block...), err
}

// unblock reads snappy as Java's producers frame it: a header of 16 bytes, then blocks with
// their lengths.
func unblock(src []byte) (out []byte, err error) {
	if len(src) < 16 {
		return nil, io.ErrUnexpectedEOF
	}
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(src[0])<<24 | int64(src[1])<<16 | int64(src[2])<<8 | int64(src[3])
		if src = src[4:]; n > int64(len(src)) {
			return nil, io.ErrUnexpectedEOF
		}
		if out, err = snap(out, src[:n]); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return out, nil
}
