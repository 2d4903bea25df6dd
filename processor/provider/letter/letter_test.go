package letter

import (
	"bytes"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/provider"
)

var at = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// TestNothingEndsAHeader: whatever a request says, the header has the fields that it
// has, no line is longer than 998 bytes, and the subject comes back as it was.
func TestNothingEndsAHeader(t *testing.T) {
	s := &Style{From: netmail.Address{Name: "Weir", Address: "weir@weir.example"}, Unsubscribe: []string{"https://example.com/{{to}}/{{id}}"}}
	known := map[string]bool{"From": true, "To": true, "Reply-To": true, "Subject": true, "Message-Id": true, "Date": true, "Mime-Version": true, "Auto-Submitted": true, "List-Unsubscribe": true, "List-Unsubscribe-Post": true, "Content-Type": true, "Content-Transfer-Encoding": true}
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z =?\r\n:<>@"._-]{0,60}`), rapid.Map(rapid.IntRange(1, 900), func(n int) string { return strings.Repeat("x", n) }),
		rapid.Map(rapid.IntRange(1, 300), func(n int) string { return strings.Repeat("码🙂", n) }))
	rapid.Check(t, func(t *rapid.T) {
		c := &provider.Call{ID: text.Draw(t, "id"), To: rapid.OneOf(rapid.Just("zoe@example.com"), rapid.Just("zoë@example.com"), text).Draw(t, "to"), From: text.Draw(t, "from"), ReplyTo: text.Draw(t, "reply"), Tenant: "acme",
			Content: content.Content{Subject: text.Draw(t, "subject"), Body: text.Draw(t, "body"), HTML: text.Draw(t, "html")}}
		l, none := s.Write(c, at)
		if none != nil {
			if none.Kind != provider.Permanent || none.Code == "" || none.Text == "" {
				t.Errorf("%+v", none)
			}
			return
		}
		m, err := netmail.ReadMessage(bytes.NewReader(l.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range m.Header {
			if !known[k] || len(v) != 1 {
				t.Errorf("%s: %q", k, v)
			}
		}
		if strings.ContainsAny(l.From+l.To, "\r\n<>") || strings.ContainsAny(l.ID, " \r\n<>") {
			t.Errorf("%+v", l)
		}
		if got, want := Plain(m.Header.Get("Subject")), strings.ToValidUTF8(c.Content.Subject, "\uFFFD"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for line := range bytes.Lines(l.Bytes) {
			if len(line) > 1000 || !bytes.HasSuffix(line, []byte("\r\n")) && !bytes.HasSuffix(l.Bytes, line) {
				t.Errorf("%q", line)
			}
		}
		again, _ := s.Write(c, at)
		if !bytes.Equal(again.Bytes, l.Bytes) {
			t.Errorf("the second is another:\n%s\n%s", l.Bytes, again.Bytes)
		}
	})
}

func TestSender(t *testing.T) {
	s := &Style{From: netmail.Address{Name: "Weir", Address: "weir@weir.example"}}
	for _, tt := range []struct{ from, want string }{
		{"", `"Weir" <weir@weir.example>`}, {"News", `"News" <weir@weir.example>`}, {"a@b.example", "<a@b.example>"}, {"Zoë <a@b.example>", "=?utf-8?q?Zo=C3=AB?= <a@b.example>"},
	} {
		if a, err := s.sender(tt.from); err != nil || a.String() != tt.want {
			t.Errorf("%s: %v, %v", tt.from, a, err)
		}
	}
	// A name alone is no way to add an address.
	if l, none := s.Write(&provider.Call{ID: "a", To: "b@c.example", From: "evil\r\nBcc: x"}, at); none != nil || bytes.Contains(l.Bytes, []byte("\nBcc")) {
		t.Error(none, string(l.Bytes))
	}
}

// TestALetterOfWeirsOwn has nothing to unsubscribe from.
func TestALetterOfWeirsOwn(t *testing.T) {
	s := &Style{From: netmail.Address{Address: "weir@weir.example"}, Unsubscribe: []string{"https://example.com/"}}
	for tenant, want := range map[string]bool{"": false, "acme": true} {
		l, none := s.Write(&provider.Call{ID: "a", To: "b@c.example", Tenant: tenant}, at)
		if none != nil || bytes.Contains(l.Bytes, []byte("List-Unsubscribe: <https://example.com/>")) != want {
			t.Error(none, tenant, string(l.Bytes))
		}
	}
}

// TestSubjects that look like something else come back as they were.
func TestSubjects(t *testing.T) {
	s := &Style{From: netmail.Address{Address: "weir@weir.example"}}
	for _, subject := range []string{"=?utf-8?q?x?=", "a =?utf-8?b?eA==?= b", " a", "a ", "a  b", "", strings.Repeat("x", 998), strings.Repeat("y ", 499), strings.Repeat("🙂", 240), "a\tb", "a\r\nBcc: x"} {
		l, none := s.Write(&provider.Call{ID: "a", To: "b@c.example", Content: content.Content{Subject: subject, Body: "b"}}, at)
		if none != nil {
			t.Fatal(none)
		}
		m, err := netmail.ReadMessage(bytes.NewReader(l.Bytes))
		if err != nil || Plain(m.Header.Get("Subject")) != subject {
			t.Errorf("%q: %v, %q", subject, err, m.Header.Get("Subject"))
		}
		for line := range bytes.Lines(l.Bytes) {
			if len(line) > 1000 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	}
}
