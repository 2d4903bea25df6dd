package fcm

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

const (
	renewBefore = 5 * time.Minute // the end of a token, which Google lets live for an hour
	leastLife   = 30 * time.Second
	holdFailure = time.Second // what failed is not asked again for so long
)

// tokens keeps the access token. One request for it is made at a time, for all calls
// that wait; it is no call's, so it ends by its own deadline.
type tokens struct {
	config jwt.Config
	http   *httpcall.Client
	within time.Duration
	now    func() time.Time

	ctx    context.Context // ends at close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	token   string
	until   time.Time
	asking  chan struct{} // closed when the request under way ended; nil while none is
	failed  provider.Outcome
	holding time.Time // until when failed is answered
}

func (t *tokens) close() {
	t.cancel()
	t.wg.Wait()
}

// get returns the token for a call, or what comes of the call without one. No message
// was sent then.
func (t *tokens) get(ctx context.Context) (string, provider.Outcome) {
	for {
		t.mu.Lock()
		now := t.now()
		if t.token != "" && now.Before(t.until) {
			defer t.mu.Unlock()
			return t.token, provider.Outcome{}
		}
		if now.Before(t.holding) {
			defer t.mu.Unlock()
			return "", t.failed
		}
		if t.asking == nil {
			t.asking = make(chan struct{})
			t.wg.Go(t.ask)
		}
		asking := t.asking
		t.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return "", provider.Outcome{Kind: provider.Transient, Code: "token_timeout", Text: "no access token before the deadline"}
		}
	}
}

// refused forgets a token that FCM refused.
func (t *tokens) refused(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
}

func (t *tokens) ask() {
	token, failed := t.request()
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if token == nil {
		t.token, t.failed, t.holding = "", failed, now.Add(holdFailure)
	} else {
		life := time.Hour
		if !token.Expiry.IsZero() {
			life = time.Until(token.Expiry)
		}
		t.token, t.until = token.AccessToken, now.Add(max(life-renewBefore, leastLife))
	}
	close(t.asking)
	t.asking = nil
}

// transport makes the library's requests by httpcall, within ctx: the library itself
// gives them none.
type transport struct {
	ctx  context.Context
	call *httpcall.Watched
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.call.Do(r.WithContext(t.ctx))
}

func (t *tokens) request() (*oauth2.Token, provider.Outcome) {
	ctx, cancel := context.WithTimeout(t.ctx, t.within)
	defer cancel()
	client := &http.Client{
		Transport:     transport{ctx, t.http.Watch()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	token, err := t.config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case err == nil && token.AccessToken != "":
		return token, provider.Outcome{}
	case answered && refused.Response != nil && (refused.Response.StatusCode == http.StatusBadRequest || refused.Response.StatusCode == http.StatusUnauthorized || refused.Response.StatusCode == http.StatusForbidden):
		// The answer is not repeated: it names the account.
		return nil, provider.Outcome{Kind: provider.Transient, Code: "bad_credentials", Text: "Google gives no access token to this service account (settings.credentials; is this machine's clock right?)"}
	case answered:
		return nil, provider.Outcome{Kind: provider.Transient, Code: "no_token", Text: "Google gives no access token at the moment"}
	}
	return nil, provider.Outcome{Kind: provider.Transient, Code: "no_token", Text: "no access token: the request for it failed"}
}
