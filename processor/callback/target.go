package callback

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// target is whom to call for a callback.
type target struct {
	url     string
	secrets []string // the new one, and the one before a rotation
	origin  string   // scheme, host and port: who is called
	host    string   // for people
	print   string   // names the endpoint, and changes with its address and secret
	own     bool     // the request's own address
	err     error    // a secret that cannot be read: the environment may be put right
}

// targets finds them under a policy. What secrets were is kept for a while: a file is
// not read for each callback.
type targets struct {
	getenv  func(string) string
	secrets secret.Bounds
	rev     *schemas.Revision
	read    time.Time
	of      map[string]*signer
}

// signer is what a tenant's policy says of its callbacks.
type signer struct {
	url     string // resolved; empty: only messages that name an address
	secrets []string
	events  []string
	err     error
}

// secretsFor is how soon a secret that changed in the environment's files is used.
const secretsFor = 10 * time.Second

// follow takes up a revision.
func (t *targets) follow(rev *schemas.Revision, now time.Time) {
	if t.rev != nil && t.rev.Revision == rev.Revision && now.Sub(t.read) < secretsFor {
		return
	}
	t.rev, t.read, t.of = rev, now, make(map[string]*signer)
	for i := range rev.Policy.Tenants {
		v := &rev.Policy.Tenants[i]
		cb := v.Callback
		if cb == nil || cb.Secret == "" {
			continue
		}
		s := &signer{events: cb.Events}
		at := "tenants." + v.Name + ".callback."
		resolve := func(field, value string) string {
			if value == "" || s.err != nil {
				return ""
			}
			out, err := t.secrets.Resolve(at+field, value, t.getenv)
			s.err = err
			return out
		}
		s.url = resolve("url", cb.URL)
		s.secrets = append(s.secrets, resolve("secret", cb.Secret))
		if before := resolve("previous_secret", cb.PreviousSecret); before != "" {
			s.secrets = append(s.secrets, before)
		}
		if cb.URL != "" && s.err != nil {
			s.url = cb.URL // there is one, though it cannot be read now
		}
		t.of[v.Name] = s
	}
}

// wants reports whether a status is to be told: to address, or to the tenant's own
// where that is empty.
func (t *targets) wants(tenant string, s schemas.Status, address string) bool {
	of := t.of[tenant]
	return of != nil && (address != "" || of.url != "") && (len(of.events) == 0 || slices.Contains(of.events, string(s)))
}

// find returns whom to call; nil where the policy asks for no callback any more.
func (t *targets) find(tenant, address string) *target {
	of := t.of[tenant]
	if of == nil || address == "" && of.url == "" {
		return nil
	}
	out := &target{url: cmp.Or(address, of.url), secrets: of.secrets, own: address != "", err: of.err}
	if out.err == nil {
		u, err := url.Parse(out.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			out.err = fmt.Errorf("tenants.%s.callback.url: it is no address: write http or https and a host", tenant)
		} else {
			out.origin, out.host = u.Scheme+"://"+strings.ToLower(u.Host), u.Host
		}
	}
	h := sha256.New()
	text(h, "weir callback endpoint")
	text(h, tenant)
	text(h, out.url)
	text(h, strings.Join(out.secrets[:1], ""))
	out.print = hex.EncodeToString(h.Sum(nil)[:16])
	return out
}
