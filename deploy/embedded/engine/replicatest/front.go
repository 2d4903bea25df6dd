package replicatest

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
)

var onCluster = regexp.MustCompile(` ON CLUSTER '[^']*'`)

// front answers in an engine's place. A statement ON CLUSTER runs on every replica, one
// after the other, its own first; the first error is the answer.
func front(engine string, replicas []string) http.Handler {
	to := func(addr string) http.Handler {
		p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
		p.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		return p
	}
	own := to(engine)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if strings.HasPrefix(q.Get("query"), "INSERT") {
			own.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		// The statement is either here or there.
		plain := onCluster.ReplaceAll(body, nil)
		query := onCluster.ReplaceAllString(q.Get("query"), "")
		everywhere := !bytes.Equal(plain, body) || query != q.Get("query")
		q.Set("query", query)
		again := func() *http.Request {
			c := r.Clone(r.Context())
			c.Body, c.ContentLength = io.NopCloser(bytes.NewReader(plain)), int64(len(plain))
			if query != "" {
				c.URL.RawQuery = q.Encode()
			}
			return c
		}
		if everywhere {
			for _, addr := range replicas {
				answer := httptest.NewRecorder()
				to(addr).ServeHTTP(answer, again())
				if answer.Code != http.StatusOK {
					for k, v := range answer.Header() {
						w.Header()[k] = v
					}
					w.WriteHeader(answer.Code)
					_, _ = w.Write(answer.Body.Bytes())
					return
				}
			}
		}
		own.ServeHTTP(w, again()) // of what ran already it says IF NOT EXISTS, or IF EXISTS
	})
}
