package ingest

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// consoleRoot is where the console's pages are.
const consoleRoot = "/console/"

// consolePaths serves the console's pages, where they are served at all; everything
// else goes on. They are no routes of the API: nobody needs a key to have them, and
// the document has none of them.
func (s *Server) consolePaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, below := strings.CutPrefix(r.URL.Path, consoleRoot)
		enter := r.URL.Path == "/" || r.URL.Path+"/" == consoleRoot
		if s.console == nil || !below && !enter {
			next.ServeHTTP(w, r)
			return
		}
		chi.RouteContext(r.Context()).RoutePatterns = []string{consoleRoot + "*"} // for the metrics
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		default:
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			refuse(w, r, methodRefused.problem("This path takes GET, HEAD, OPTIONS."))
			return
		}
		if enter {
			w.Header().Set("Location", consoleRoot)
			w.WriteHeader(http.StatusFound)
			return
		}
		if !s.console.Serve(w, r, name) {
			refuse(w, r, unknownRoute.problem("The console has no such file."))
		}
	})
}
