package smtp

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	gosmtp "github.com/wneessen/go-mail/smtp"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/letter"
)

// TestTheDotThatWasNotWritten: a letter that fits a buffer is written with its dot. A
// relay that reads a part of that has no letter; one that reads all of it may.
func TestTheDotThatWasNotWritten(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads int // bytes of the letter; below 0 is all of it
		want  provider.Outcome
	}{
		{"nothing of it is read", 0, provider.Outcome{Kind: provider.Transient, Code: "not_written", Text: "the deadline came before all of the message was written"}},
		{"a part", 10, provider.Outcome{Kind: provider.Transient, Code: "not_written", Text: "the deadline came before all of the message was written"}},
		{"all of it", -1, provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout", Text: "no answer to the whole message before the deadline"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			go func() {
				_, _ = io.WriteString(far, "220 x\r\n")
				r := bufio.NewReaderSize(far, 16) // no more than it says
				for _, answer := range []string{"250 x", "250 x", "250 x", "354 x"} {
					if _, err := r.ReadString('\n'); err != nil {
						return
					}
					_, _ = io.WriteString(far, answer+"\r\n")
				}
				if tt.reads < 0 {
					_, _ = io.Copy(io.Discard, r)
				}
				_, _ = io.ReadFull(r, make([]byte, max(tt.reads, 0)))
			}()
			s := &session{wire: &wire{Conn: near}}
			var err error
			if s.c, err = gosmtp.NewClient(s.wire, "x"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			keep := false
			got := s.send(ctx, &relay{}, &provider.Call{ID: "a"}, &letter.Letter{From: "a@b.example", To: "c@d.example", Bytes: []byte(strings.Repeat("x\r\n", 500))}, &keep)
			if got != tt.want || keep {
				t.Errorf("%+v, kept: %v", got, keep)
			}
			s.wire.Close()
		})
	}
}
