package stream

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestStuck: a stage that has work for a minute and commits nothing is stuck; one that was
// aborted, one that waits, and one that has nothing to do are not.
func TestStuck(t *testing.T) {
	no := errors.New("no")
	for name, tt := range map[string]struct {
		happens func(*progress)
		stuck   bool
	}{
		"nothing":                   {func(*progress) {}, false},
		"it aborts and aborts":      {func(p *progress) { p.failed(no); p.failed(no); p.failed(no) }, true},
		"and then commits":          {func(p *progress) { p.failed(no); p.failed(no); p.failed(no); p.well() }, false},
		"one abort, then nothing":   {func(p *progress) { p.begins(true); p.failed(no) }, false},
		"a transaction without end": {func(p *progress) { p.begins(true) }, true},
		"it waits for what it has":  {func(p *progress) { p.begins(true); p.idle(true) }, false},
		"it fails, and has no work": {func(p *progress) { p.failed(no); p.failed(no); p.failed(no); p.begins(false); p.idle(false) }, true},
		"Kafka was away, and there is nothing to do": {func(p *progress) {
			for range 3 {
				p.restarted(no)
			}
			time.Sleep(settled)
			p.idle(false)
		}, false},
		"it begins again and again": {func(p *progress) {
			for range 3 {
				p.restarted(no)
				p.idle(false)
			}
		}, true},
		"a commit, then no end":       {func(p *progress) { p.begins(true); p.well(); p.begins(true) }, true},
		"it fails, and is taken away": {func(p *progress) { p.failed(no); p.failed(no); p.failed(no); p.well() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := NewWatch(nil)
				p := newProgress(Config{Group: "g", Watch: w})
				tt.happens(p)
				if tt.stuck {
					time.Sleep(StuckAfter - time.Millisecond)
				} else {
					time.Sleep(StuckAfter)
				}
				if len(w.Stuck()) != 0 {
					t.Fatal("before its time")
				}
				if time.Sleep(time.Millisecond); (len(w.Stuck()) == 1) != tt.stuck {
					t.Errorf("%v", w.Stuck())
				}
				if p.gone(); len(w.Stuck()) != 0 {
					t.Error("it is gone")
				}
			})
		})
	}
}

// TestDecompressor: the reader's own decompressor reads what brokers hold, and nothing beyond
// the bound.
func TestDecompressor(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		c, err := kgo.DefaultCompressor(codec)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 100_000, schemas.MaxBatchBytes, schemas.MaxBatchBytes + 1, 40 << 20} {
			src := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
			packed, by := src, kgo.CodecNone
			if name != "none" {
				packed, by = c.Compress(new(bytes.Buffer), src)
			}
			got, err := bounded.Decompress(bytes.Clone(packed), by)
			switch {
			case by == kgo.CodecNone || n <= schemas.MaxBatchBytes:
				if err != nil || !bytes.Equal(got, src) {
					t.Errorf("%s, %d bytes: %d came back, %v", name, n, len(got), err)
				}
			case !errors.Is(err, kgo.ErrMaxDecompress):
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
	}
}
