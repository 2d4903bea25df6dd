package engine

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// requestBody undoes what a request says was done to its body: first the
// Content-Encoding, then ClickHouse's own framing (decompress=1).
func requestBody(r *http.Request, framed bool) (io.Reader, error) {
	var body io.Reader = r.Body
	var err error
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		body, err = gzip.NewReader(body)
	case "deflate":
		body, err = zlib.NewReader(body)
	case "br":
		body = brotli.NewReader(body)
	case "lz4":
		body = lz4.NewReader(body)
	case "zstd":
		var d *zstd.Decoder
		// One goroutine less, and nothing to close.
		d, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		body = d
	default:
		return nil, raise(codeUnknownCompression, "UNKNOWN_COMPRESSION_METHOD", "Unknown http compression method: %s", encoding)
	}
	if err != nil {
		return nil, raise(codeCannotDecompress, "CANNOT_DECOMPRESS", "The request's body is not what its Content-Encoding says: %v", err)
	}
	if framed {
		body = newFrames(body)
	}
	return body, nil
}

// frames reads ClickHouse's compressed blocks. compress.Reader alone cannot
// tell the end from a block that was cut short after its header.
type frames struct {
	raw    *counter
	blocks *compress.Reader
	whole  int64 // bytes of raw that were consumed by whole blocks
	err    error // stays: after an error, blocks would give its last block again
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func newFrames(r io.Reader) *frames {
	raw := &counter{Reader: r}
	return &frames{raw: raw, blocks: compress.NewReader(raw)}
}

func (f *frames) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.blocks.Read(p)
	switch {
	case err == nil:
		f.whole = f.raw.n
	case errors.Is(err, io.EOF) && f.raw.n == f.whole:
		err = io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF
	}
	f.err = err
	return n, err
}

// frameSize is how much of an answer goes into one compressed block; ClickHouse
// uses blocks of up to 1 MiB too.
const frameSize = 1 << 20

// writeFrames writes data in ClickHouse's own compressed framing.
func writeFrames(w io.Writer, method string, data []byte) error {
	m := compress.LZ4
	if method == "ZSTD" {
		m = compress.ZSTD
	}
	c := compress.NewWriter(compress.LevelZero, m)
	for len(data) > 0 {
		part := data[:min(frameSize, len(data))]
		data = data[len(part):]
		if err := c.Compress(part); err != nil {
			return err
		}
		if _, err := w.Write(c.Data); err != nil {
			return err
		}
	}
	return nil
}

// maxText bounds a statement's text; the data of an insert is not bounded. The
// engine has its own, smaller bound: max_query_size.
const maxText = 16 << 20

// readStatement reads a statement and, if it is an insert, opens the data that follows
// it: sql is then the INSERT up to its data, and data is not nil.
func readStatement(query string, body io.Reader) (sql string, into insert, data io.Reader, err error) {
	if i, ok := splitInsert(query); ok {
		if i.data != "" {
			i.data += "\n"
		}
		return query, i, io.MultiReader(strings.NewReader(i.data), body), nil
	}
	if query != "" {
		query += "\n"
	}
	head, err := io.ReadAll(io.LimitReader(body, maxText+1))
	if err != nil {
		return "", insert{}, nil, err
	}
	// Past its end a body is not read again: not every decoder bears that.
	more := len(head) > maxText
	sql = query + string(head)
	switch i, ok := splitInsert(sql); {
	case ok && more:
		return sql, i, io.MultiReader(strings.NewReader(i.data), body), nil
	case ok:
		return sql, i, strings.NewReader(i.data), nil
	case more:
		return "", insert{}, nil, raise(codeQueryTooLarge, "QUERY_IS_TOO_LARGE", "The statement is longer than %d bytes", maxText)
	}
	return sql, insert{}, nil, nil
}
