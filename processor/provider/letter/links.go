package letter

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Links are addresses at Weir's own HTTP listener with which a recipient unsubscribes
// by one click (RFC 8058). Each holds the message's reference and a tag over it, so
// that nobody unsubscribes others.
type Links struct {
	base string // PublicURL/v1/inbound/NAME
	key  []byte
}

// ReadLinks reads unsubscribe_secret; nil when there is none, or something is wrong
// with it, which in says then.
func ReadLinks(in *provider.Settings, publicURL string) *Links {
	key := in.Text("unsubscribe_secret", "")
	switch {
	case key == "":
		return nil
	case len(key) < 16:
		in.Fail("unsubscribe_secret", "is too short: make one with openssl rand -base64 32")
		return nil
	case !in.Stated() && !strings.HasPrefix(publicURL, "https://"):
		in.Fail("unsubscribe_secret", "needs http.public_url in the settings of the process, an https address: mail programs call nothing else")
		return nil
	}
	name := in.Provider.Name
	return &Links{base: publicURL + "/v1/inbound/" + name, key: []byte(name + "\x00" + key)}
}

func (l *Links) tag(reference string) string {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte("weir one-click unsubscribe\x00" + reference))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// Of is the address for a message.
func (l *Links) Of(r provider.Reference) string {
	ref := r.String()
	return l.base + "?u=" + ref + "." + l.tag(ref)
}

// Inbound reads what came to such an address. A POST of List-Unsubscribe=One-Click
// is a STOP. Anything else of a true address shows a button and does nothing, since
// mail programs look at every address in a letter. Where there are no links it is
// provider.ErrNoHook.
func (l *Links) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	if l == nil {
		return nil, provider.Reply{}, provider.ErrNoHook
	}
	ref, tag, _ := strings.Cut(h.URL.Query().Get("u"), ".")
	if ref == "" || !hmac.Equal([]byte(tag), []byte(l.tag(ref))) {
		return nil, provider.Reply{}, provider.ErrForged
	}
	r, err := provider.ParseReference(ref)
	if err != nil {
		return nil, provider.Reply{}, provider.ErrForged
	}
	if h.Method != http.MethodPost || !oneClick(h) {
		return nil, page(`<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click"><button>Unsubscribe</button></form>`), nil
	}
	return []provider.Inbound{{
		ID: "unsubscribe " + r.MessageID, From: r.To, Channel: schemas.ChannelEmail, At: h.At,
		Tenant: r.Tenant, Class: r.Class, Word: "stop",
	}}, page("<p>You are unsubscribed.</p>"), nil
}

// oneClick reports whether the body says what RFC 8058 demands, in either form.
func oneClick(h *provider.Hook) bool {
	kind, _, err := mime.ParseMediaType(h.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	if kind == "multipart/form-data" {
		r := http.Request{Method: h.Method, Header: h.Header, Body: io.NopCloser(bytes.NewReader(h.Body))}
		return r.ParseMultipartForm(1<<16) == nil && r.PostForm.Get("List-Unsubscribe") == "One-Click"
	}
	form, err := url.ParseQuery(string(h.Body))
	return kind == "application/x-www-form-urlencoded" && err == nil && form.Get("List-Unsubscribe") == "One-Click"
}

func page(inner string) provider.Reply {
	return provider.Reply{Status: http.StatusOK, ContentType: "text/html; charset=utf-8", Body: []byte(fmt.Sprintf(
		`<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Unsubscribe</title>%s`, inner))}
}
