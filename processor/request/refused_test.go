package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestDeadLettersFit: a dead letter of any record fits into the topic. What it leaves out it
// says.
func TestDeadLettersFit(t *testing.T) {
	big := bytes.Repeat([]byte("é"), 2<<20)
	many := make([]kgo.RecordHeader, 50_000)
	short := slices.Repeat([]kgo.RecordHeader{{Key: "h"}}, 1_000_000)
	for name, r := range map[string]*kgo.Record{
		"a value":            {Value: big},
		"a key":              {Key: big, Value: []byte("v")},
		"a header":           {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "x", Value: big}}},
		"the name of one":    {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: string(big), Value: []byte("y")}}},
		"many empty headers": {Value: big, Headers: many},
		"headers alone":      {Value: []byte("v"), Headers: short},
	} {
		env := Dead(schemas.Envelope{ID: "m", RequestKey: string(r.Key), LastError: string(big)}, schemas.ReasonTooLarge, string(big))
		out := DeadLetter(r, "dlq", 0, &env)
		size := len(out.Key) + len(out.Value)
		for _, h := range out.Headers {
			size += 16 + len(h.Key) + len(h.Value)
		}
		if size > 256<<10 {
			t.Errorf("%s: %d bytes", name, size)
		}
		var got schemas.Envelope
		for _, h := range out.Headers {
			if err := got.Set(h.Key, string(h.Value)); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256(r.Value)
		if !got.Cut() || got.ValueBytes != int64(len(r.Value)) || got.ValueSHA256 != hex.EncodeToString(sum[:]) || !bytes.HasPrefix(r.Value, out.Value) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	whole := &kgo.Record{Value: []byte("v"), Key: []byte("k"), Headers: headers("x", strings.Repeat("y", 900<<10))}
	env := Dead(schemas.Envelope{ID: "m"}, "permanent", "no")
	if out := DeadLetter(whole, "dlq", 0, &env); string(out.Value) != "v" || len(out.Headers[0].Value) != 900<<10 {
		t.Error("what fits is not kept whole")
	}
}
