package ingest

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
)

// measure counts and times every request under its route's pattern: never
// under its path, which holds ids.
func (s *Server) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answering{ResponseWriter: w}
		next.ServeHTTP(a, r)
		took := time.Since(began)
		route := chi.RouteContext(r.Context()).RoutePattern()
		if route == "" {
			route = "none"
		}
		if a.status == 0 {
			a.status = http.StatusOK
		}
		s.seconds.WithLabelValues(route, strconv.Itoa(a.status)).Observe(took.Seconds())
		s.work.WithLabelValues(route).Observe(max(took-time.Duration(a.waited.Load()), 0).Seconds())
	})
}

// answering is every handler's ResponseWriter. It remembers the status, and how
// long the handler waited for others than its caller.
type answering struct {
	http.ResponseWriter
	status int
	paid   charge       // undone by giveBack
	waited atomic.Int64 // nanoseconds; of a batch's messages, that wait side by side, more than it took
}

// waited notes that a handler waited since then for Kafka, or for a decision.
func waited(w http.ResponseWriter, since time.Time) {
	if a, ok := w.(*answering); ok {
		a.waited.Add(int64(time.Since(since)))
	}
}

func (a *answering) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recover turns a panic into a problem. Its stack goes to the log, its value
// does not: it may hold a part of the request.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			switch {
			case v == nil:
			case v == http.ErrAbortHandler:
				panic(v)
			default:
				s.logger.Error("a handler panicked", "method", r.Method, "stack", stack())
				refuse(w, r, internal.problem("The mistake is in the server's log."))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// headers puts the guards on every answer.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guards.set(w.Header())
		next.ServeHTTP(w, r)
	})
}

// guards are on every answer: none may be kept, taken for another type, shown
// within another page, or named to whom a link leads. There are no CORS headers:
// no page of another site may read an answer. The lists are shared by all answers:
// whoever wants another value sets one.
var guards = guardHeaders{
	"Cache-Control":                {"no-store"},
	"X-Content-Type-Options":       {"nosniff"},
	"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

type guardHeaders map[string][]string

func (g guardHeaders) set(h http.Header) { maps.Copy(h, g) }

// sameOrigin keeps the pages of other sites from writing: on loopback there is
// no key that they lack.
func sameOrigin() *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, crossOrigin.problem("A page of another site cannot call this API."))
	}))
	return p
}

// ownHost refuses names that are not this machine's own while the server asks
// for no key, being on loopback. A page whose name has been pointed at 127.0.0.1 is of
// the same origin to the browser; its Host header tells.
func (s *Server) ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.localOnly && !ownName(r.Host) && !(publicPath(r.URL.Path) && s.hooks.publicName(r.Host)) {
			refuse(w, r, misdirected.problem("On loopback the API answers to localhost and to addresses, not to other names."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownName reports whether the Host header is empty, localhost or an address:
// no name that someone else could point here.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, unknownRoute.problem("No route has this path. GET /openapi.yaml lists them."))
}

// methodNotAllowed answers what a path's routes do not, and OPTIONS: with the
// methods that there are.
func methodNotAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowed := methods(routes, r.URL.EscapedPath())
		if len(allowed) == 0 { // an unknown method on an unknown path
			notFound(w, r)
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		refuse(w, r, methodRefused.problem("This path takes "+list+"."))
	}
}

// batchMethods keeps what reads a message from taking the batches' path for one.
func batchMethods(routes chi.Routes) func(http.Handler) http.Handler {
	refused := methodNotAllowed(routes)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.EscapedPath() == batchPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
				refused(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func methods(routes chi.Routes, path string) (allowed []string) {
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if path == batchPath && m != http.MethodPost {
			continue
		}
		if routes.Match(chi.NewRouteContext(), m, path) {
			allowed = append(allowed, m)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	if len(allowed) > 0 {
		allowed = append(allowed, http.MethodOptions)
	}
	return allowed
}
