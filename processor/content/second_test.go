package content

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirhq/weir/schemas"
)

// TestSecondContent compares what Of makes of a request with another renderer of templates:
// the text, its hash, and why there is none.
func TestSecondContent(t *testing.T) {
	requests := 50_000
	if os.Getenv("WEIR_CHAOS") != "" {
		requests = 5_000_000
	}
	rnd := rand.New(rand.NewPCG(13, 14))
	of := func(from ...string) string { return from[rnd.IntN(len(from))] }
	text := func() string {
		var b strings.Builder
		for range rnd.IntN(6) {
			b.WriteString(of("{{code}}", "{{code}}", "{{ a.b }}", "{{_}}", "{{A-1}}", "Hi ", "<b>", "\u4e2d", "\n", "}", "{", " "))
			if rnd.IntN(40) == 0 {
				b.WriteString(of("{{", "}}", "{{1}}", "{{}}", "{{ }}", "{{a b}}", "{{\ta}}", "{{"+strings.Repeat("x", 65)+"}}", "{{"+strings.Repeat("x", 64)+"}}", "{{\u00e9}}"))
			}
		}
		return b.String()
	}
	reasons := map[Reason]int{}
	for range requests {
		p := &schemas.Policy{}
		for _, name := range []string{"login", "code"}[:rnd.IntN(3)] {
			p.Templates = append(p.Templates, schemas.Template{Name: name, Channel: schemas.Channels[rnd.IntN(2)], Subject: of("", text()), Body: text(), HTML: of("", text()), Title: of("", text())})
		}
		q := &schemas.Request{Channel: schemas.Channels[rnd.IntN(2)], Template: of("", "login", "login", "code"), Vars: map[string]string{}}
		for _, v := range []string{"code", "a.b", "_", "A-1", strings.Repeat("x", 64)} {
			if rnd.IntN(8) > 0 {
				q.Vars[v] = of("", "123456", "<&>\"'", "{{code}}", "}}", "\u00a0\x00", "&amp;")
			}
		}
		if rnd.IntN(4) == 0 {
			q.Subject, q.Body, q.HTML, q.Title = of("", "s"), of("", text()), of("", "<i>"), of("", "t")
		}
		got, err := Of(q, p)
		e := new(Error)
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		want, reason, missing := secondOf(q, p)
		if got != want || e.Reason != reason || !slices.Equal(e.Missing, missing) {
			t.Fatalf("%+v\n%+v\n%s\n%q, missing %q; the second renderer says %q, missing %q", q, p.Templates, cmp.Diff(want, got), e.Reason, e.Missing, reason, missing)
		}
		if reasons[reason]++; got.Hash() != secondHash(got) {
			t.Fatalf("%+v: hash %s, the second is %s", got, got.Hash(), secondHash(got))
		}
	}
	if len(reasons) != 6 || reasons[""] < requests/5 {
		t.Errorf("of %d requests: %v", requests, reasons)
	}
	t.Logf("%d requests, %d have content; %v", requests, reasons[""], reasons)
}

var (
	braces   = regexp.MustCompile(`{{|}}`)
	variable = regexp.MustCompile(`^ *([A-Za-z_][-A-Za-z0-9_.]{0,63}) *$`)
)

// secondOf makes a request's content.
func secondOf(q *schemas.Request, p *schemas.Policy) (c Content, reason Reason, missing []string) {
	own := []string{q.Subject, q.Body, q.HTML, q.Title}
	if q.Template == "" {
		return Content{own[0], own[1], own[2], own[3]}, "", nil
	}
	if strings.Join(own, "") != "" {
		return c, "content_and_template", nil
	}
	i := slices.IndexFunc(p.Templates, func(t schemas.Template) bool { return t.Name == q.Template })
	if i < 0 {
		return c, "unknown_template", nil
	}
	t := p.Templates[i]
	if t.Channel != q.Channel {
		return c, "template_wrong_channel", nil
	}
	out := []string{t.Subject, t.Body, t.HTML, t.Title}
	for i, text := range out {
		out[i] = ""
		from, open := 0, false
		for _, m := range append(braces.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
			piece, brace := text[from:m[0]], text[m[0]:m[1]]
			if from = m[1]; open != (brace == "}}") {
				return c, "malformed_template", nil
			}
			if !open {
				out[i] += piece
				open = brace == "{{"
				continue
			}
			open = false
			name := variable.FindStringSubmatch(piece)
			if name == nil {
				return c, "malformed_template", nil
			}
			value, has := q.Vars[name[1]]
			if !has && !slices.Contains(missing, name[1]) {
				missing = append(missing, name[1])
			}
			if i == 2 { // HTML
				value = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(value)
			}
			out[i] += value
		}
	}
	if missing != nil {
		slices.Sort(missing)
		return c, "missing_variable", missing
	}
	return Content{out[0], out[1], out[2], out[3]}, "", nil
}

// secondHash is half of SHA-256 over the fields, each behind its length in groups of 7 bits.
func secondHash(c Content) string {
	var b strings.Builder
	for _, field := range []string{c.Subject, c.Body, c.HTML, c.Title} {
		n := len(field)
		for ; n > 127; n /= 128 {
			b.WriteByte(byte(128 + n%128))
		}
		b.WriteByte(byte(n))
		b.WriteString(field)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:32]
}
