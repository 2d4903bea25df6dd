package ingest

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes is every route there is. schemas/openapi.yaml lists the same, and a
// test holds them to one another.
func (s *Server) routes() *chi.Mux {
	r := chi.NewRouter()
	r.Use(s.measure, s.recover, headers, s.ownHost, sameOrigin().Handler, middleware.GetHead)
	r.NotFound(notFound)
	r.MethodNotAllowed(methodNotAllowed(r))

	r.Post("/v1/messages", s.postMessage)
	r.Get("/v1/messages/{id}", s.getMessage)

	r.Get("/v1/dlq", s.getDLQ)
	r.Post("/v1/dlq/redrive", s.postRedrive)

	r.Get("/healthz", s.getHealth)
	r.Get("/readyz", s.getReady)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	r.Get("/openapi.yaml", getOpenAPI)
	return r
}
