package letter

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

func links(t *testing.T, name, secret string) *Links {
	t.Helper()
	in := provider.SettingsOf(schemas.Provider{Name: name, Settings: map[string]any{"unsubscribe_secret": secret}}, nil)
	l, err := ReadLinks(in, "https://weir.example"), in.Err()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOneClick(t *testing.T) {
	l := links(t, "mail", "0123456789abcdef")
	call := provider.Call{ID: "0193f1a0-0000-7000-8000-000000000001", To: "zoe@example.com", Tenant: "acme", Class: "marketing", Channel: schemas.ChannelEmail, Attempt: 1}
	s := &Style{Links: l}
	s.From.Address = "weir@weir.example"
	letter, none := s.Write(&call, at)
	if none != nil || !bytes.Contains(letter.Bytes, []byte("List-Unsubscribe: <https://weir.example/v1/inbound/mail?u=")) || !bytes.Contains(letter.Bytes, []byte("List-Unsubscribe-Post: List-Unsubscribe=One-Click")) {
		t.Fatal(none, string(letter.Bytes))
	}
	u, err := url.Parse(l.Of(call.Reference()))
	if err != nil {
		t.Fatal(err)
	}
	form := "application/x-www-form-urlencoded"
	stop := []provider.Inbound{{ID: "unsubscribe " + call.ID, From: call.To, Channel: schemas.ChannelEmail, At: at, Tenant: "acme", Class: "marketing", Word: "stop"}}
	other := links(t, "mail", "another secret of enough").Of(call.Reference())
	elsewhere := links(t, "mail-2", "0123456789abcdef").Of(call.Reference())
	query := func(link string) string { _, q, _ := strings.Cut(link, "?"); return q }
	r := call.Reference()
	r.To = "adam@example.com"
	_, tag, _ := strings.Cut(u.RawQuery, ".")
	for _, tt := range []struct {
		name, method, query, kind, body string
		want                            []provider.Inbound
		err                             error
		page                            string
	}{
		{"one click", "POST", u.RawQuery, form, "List-Unsubscribe=One-Click", stop, nil, "unsubscribed"},
		{"in the other form", "POST", u.RawQuery, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n", stop, nil, "unsubscribed"},
		{"a look at it", "GET", u.RawQuery, "", "", nil, nil, "<button>"},
		{"a POST that says something else", "POST", u.RawQuery, form, "a=b", nil, nil, "<button>"},
		{"under another secret", "POST", query(other), form, "List-Unsubscribe=One-Click", nil, provider.ErrForged, ""},
		{"of another provider", "POST", query(elsewhere), form, "List-Unsubscribe=One-Click", nil, provider.ErrForged, ""},
		{"another recipient under the same tag", "POST", "u=" + r.String() + "." + tag, form, "List-Unsubscribe=One-Click", nil, provider.ErrForged, ""},
		{"nothing", "POST", "", form, "List-Unsubscribe=One-Click", nil, provider.ErrForged, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &provider.Hook{Method: tt.method, URL: &url.URL{Path: "/v1/inbound/mail", RawQuery: tt.query}, Header: http.Header{"Content-Type": {tt.kind}}, Body: []byte(tt.body), At: at}
			got, reply, err := l.Inbound(h)
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) || !bytes.Contains(reply.Body, []byte(tt.page)) || err == nil && reply.Status != 200 {
				t.Error(diff, err, reply)
			}
		})
	}
}

func TestReadLinks(t *testing.T) {
	for _, tt := range []struct{ name, secret, public, want string }{
		{"none", "", "", ""}, {"short", "abc", "https://weir.example", "too short"}, {"nobody reaches Weir", "0123456789abcdef", "", "http.public_url"}, {"in clear", "0123456789abcdef", "http://weir.example", "http.public_url"},
	} {
		p := schemas.Provider{Name: "mail", Settings: map[string]any{}}
		if tt.secret != "" {
			p.Settings["unsubscribe_secret"] = tt.secret
		}
		in := provider.SettingsOf(p, nil)
		l, err := ReadLinks(in, tt.public), in.Err()
		if l != nil || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", tt.name, l, err)
		}
		if in, _, err := l.Inbound(&provider.Hook{Method: "POST", URL: &url.URL{RawQuery: "u=a.b"}}); in != nil || !errors.Is(err, provider.ErrNoHook) {
			t.Errorf("%s: without links %v, %v", tt.name, in, err)
		}
	}
}
