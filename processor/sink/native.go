package sink

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/compress"
)

// times are the columns that are moments; int64 columns else are numbers.
var times = []string{"at", "retry_at", "accepted_at", "decision_t"}

const moment = "DateTime64(3, 'UTC')"

// frameSize is how much of a block goes into one compressed frame. ClickHouse's
// own client cuts at 1 MiB too.
const frameSize = 1 << 20

// native is the block in ClickHouse's format Native, as of revision 0 (which
// HTTP has whatever the client's protocol version), in LZ4 frames: the parameter
// decompress=1 says so. clickhouse-go's batch would describe the table before
// each insert, and copies every value twice more.
func (b *Block) native() ([]byte, error) {
	w := nativeWriter{c: compress.NewWriter(compress.LevelZero, compress.LZ4)}
	cols := b.Columns()
	w.uvarint(len(cols))
	w.uvarint(b.rows)
	for i, name := range b.log.Columns {
		w.string(name)
		if err := w.column(name, cols[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	return w.end()
}

// nativeWriter fills frames.
type nativeWriter struct {
	c   *compress.Writer
	buf []byte // of the frame that is being filled
	out []byte
	err error
}

func (w *nativeWriter) column(name string, values any) error {
	switch v := values.(type) {
	case []string:
		w.string("String")
		for _, s := range v {
			w.string(s)
		}
	case []int64:
		if slices.Contains(times, name) {
			w.string(moment)
		} else {
			w.string("Int64")
		}
		w.int64s(v)
	case []uint64:
		w.string("UInt64")
		for _, n := range v {
			w.put(binary.LittleEndian.AppendUint64(w.buf, n))
		}
	case []int32:
		w.string("Int32")
		for _, n := range v {
			w.put(binary.LittleEndian.AppendUint32(w.buf, uint32(n)))
		}
	case []uint32:
		w.string("UInt32")
		for _, n := range v {
			w.put(binary.LittleEndian.AppendUint32(w.buf, n))
		}
	case []uint16:
		w.string("UInt16")
		for _, n := range v {
			w.put(binary.LittleEndian.AppendUint16(w.buf, n))
		}
	case []bool:
		w.string("Bool")
		for _, is := range v {
			c := byte(0)
			if is {
				c = 1
			}
			w.put(append(w.buf, c))
		}
	case [][]string:
		w.string("Array(String)")
		ends(w, v)
		for _, list := range v {
			for _, s := range list {
				w.string(s)
			}
		}
	case [][]int64:
		w.string("Array(Int64)")
		ends(w, v)
		for _, list := range v {
			w.int64s(list)
		}
	case [][]time.Time:
		w.string("Array(" + moment + ")")
		ends(w, v)
		for _, list := range v {
			for _, t := range list {
				w.put(binary.LittleEndian.AppendUint64(w.buf, uint64(t.UnixMilli())))
			}
		}
	default:
		return fmt.Errorf("a column of %T", values)
	}
	return w.err
}

// ends writes where each array of a column ends.
func ends[T any](w *nativeWriter, lists [][]T) {
	end := uint64(0)
	for _, l := range lists {
		end += uint64(len(l))
		w.put(binary.LittleEndian.AppendUint64(w.buf, end))
	}
}

func (w *nativeWriter) int64s(v []int64) {
	for _, n := range v {
		w.put(binary.LittleEndian.AppendUint64(w.buf, uint64(n)))
	}
}

func (w *nativeWriter) uvarint(n int) { w.put(binary.AppendUvarint(w.buf, uint64(n))) }

func (w *nativeWriter) string(s string) {
	if len(s) < 0x80 {
		w.put(append(append(w.buf, byte(len(s))), s...))
		return
	}
	w.put(append(binary.AppendUvarint(w.buf, uint64(len(s))), s...))
}

// put takes the buffer with what was appended to it.
func (w *nativeWriter) put(buf []byte) {
	w.buf = buf
	if len(buf) >= frameSize {
		w.frame()
	}
}

func (w *nativeWriter) frame() {
	if w.err == nil {
		w.err = w.c.Compress(w.buf)
		w.out = append(w.out, w.c.Data...)
	}
	w.buf = w.buf[:0]
}

func (w *nativeWriter) end() ([]byte, error) {
	if len(w.buf) > 0 {
		w.frame()
	}
	return w.out, w.err
}
