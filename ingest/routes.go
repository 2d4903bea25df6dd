package ingest

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is one thing that the API does: who may ask for it, and by which of the
// API's own limits a caller's asking is counted.
type route struct {
	method, path string
	scope        scope
	pace         pace
	handle       handler
}

// handler answers a caller who may ask. The body is still unread.
type handler func(w http.ResponseWriter, r *http.Request, c *caller)

// batchPath is no message's, though /v1/messages/{id} has its form: ids are UUIDs.
const batchPath = "/v1/messages/batch"

// table is every route there is. schemas/openapi.yaml lists the same, and a
// test holds them to one another.
func (s *Server) table() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return append([]route{
		{post, "/v1/messages", scopeSend, paceWrite, s.postMessage},
		{post, batchPath, scopeSend, paceBatch, s.postBatch},
		{get, "/v1/messages", scopeRead, paceQuery, asking(s.getMessages)},
		{get, "/v1/messages/{id}", scopeRead, paceQuery, asking(s.getMessage)},
		{post, "/v1/messages/{id}/cancel", scopeSend, paceWrite, s.postCancel},
		{post, "/v1/messages/{id}/retry", scopeSend, paceWrite, s.postRetry},
		{post, "/v1/messages/{id}/callbacks", scopeSend, paceWrite, s.postCallbacks},
		{post, "/v1/decisions", scopeSend, paceWrite, s.postDecision},
		{post, "/v1/decisions/{id}/release", scopeSend, paceWrite, s.postRelease},
		{get, "/v1/quota", scopeRead, paceQuery, asking(s.getQuota)},

		{get, "/v1/suppressions", scopeRead, paceQuery, asking(s.getSuppressions)},
		{put, "/v1/suppressions", scopeSend, paceWrite, s.putSuppression},
		{del, "/v1/suppressions", scopeSend, paceWrite, s.deleteSuppression},
		{post, "/v1/suppressions/import", scopeSend, paceImport, s.postSuppressions},

		{get, "/v1/session", scopeAny, paceQuery, s.getSession},
		{post, "/v1/session", scopeNone, paceNone, s.postSession},
		{del, "/v1/session", scopeNone, paceNone, s.deleteSession},

		{get, "/v1/stats", scopeRead, paceQuery, counting(s.getStats)},
		{get, "/v1/stats/errors", scopeRead, paceQuery, counting(s.getErrors)},
		{get, "/v1/stats/recipients", scopeRead, paceQuery, counting(s.getRefused)},
		{get, "/v1/events", scopeRead, paceQuery, asking(s.getEvents)},

		{get, "/v1/dlq", scopeRead, paceQuery, asking(s.getDLQ)},
		{post, "/v1/dlq/redrive", scopeSend, paceBatch, s.postRedrive},

		{get, "/v1/health", scopeOperate, paceQuery, s.getProvidersHealth},
		{get, "/v1/proof", scopeOperate, paceQuery, s.getProof},
		{get, "/v1/delays", scopeOperate, paceQuery, s.getDelays},
		{get, "/v1/backlog", scopeOperate, paceQuery, s.getBacklog},
		{post, "/v1/limits/try", scopePolicy, paceWrite, operators(s.postTry)},

		{post, "/v1/receipts/{provider}", scopeNone, paceNone, s.receipts},
		{get, "/v1/receipts/{provider}", scopeNone, paceNone, s.receipts},
		{post, "/v1/inbound/{provider}", scopeNone, paceNone, s.inbound},
		{get, "/v1/inbound/{provider}", scopeNone, paceNone, s.inbound},

		{post, "/api/messages/send", scopeSend, paceWrite, s.postLegacyMessage},
		{post, "/api/messages/batch", scopeSend, paceBatch, s.postLegacyBatch},
		{get, "/api/messages", scopeRead, paceQuery, s.getLegacyMessage},
		{get, "/api/queue-monitor", scopeOperate, paceQuery, s.getLegacyQueue},
		{get, "/api/rate-limits", scopePolicy, paceQuery, operators(s.getLegacyLimits)},
		{post, "/api/rate-limits", scopePolicy, paceWrite, operators(s.postLegacyLimit)},
		{get, "/api/rate-limits/{id}", scopePolicy, paceQuery, operators(s.getLegacyLimit)},
		{put, "/api/rate-limits/{id}", scopePolicy, paceWrite, operators(s.putLegacyLimit)},
		{del, "/api/rate-limits/{id}", scopePolicy, paceWrite, operators(s.deleteLegacyLimit)},

		{get, "/healthz", scopeNone, paceNone, s.getHealth},
		{get, "/readyz", scopeNone, paceNone, s.getReady},
		{get, "/metrics", scopeNone, paceNone, anyone(promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))},
		{get, "/openapi.yaml", scopeNone, paceNone, getOpenAPI},
	}, s.resourceRoutes()...)
}

func (s *Server) routes() *chi.Mux {
	m := chi.NewRouter()
	m.Use(framing, s.measure, s.recover, headers, s.ownHost, sameOrigin().Handler, s.consolePaths, legacyPaths, batchMethods(m), middleware.GetHead)
	m.NotFound(notFound)
	m.MethodNotAllowed(methodNotAllowed(m))
	for _, rt := range s.table() {
		m.MethodFunc(rt.method, rt.path, s.guarded(rt))
	}
	return m
}

// guarded is a route behind what every call passes: who asks, how often, and
// whether he may. Nothing of the body is read before.
func (s *Server) guarded(rt route) http.HandlerFunc {
	if rt.scope == scopeNone {
		return func(w http.ResponseWriter, r *http.Request) {
			if p := s.pace.pass(w, r, keyless, rt.pace); p != nil {
				refuse(w, r, p)
				return
			}
			rt.handle(w, r, nil)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		c, p := s.identify(w, r)
		if p == nil {
			p = s.pace.pass(w, r, c, rt.pace)
		}
		if p == nil {
			p = c.may(rt.scope)
		}
		if p != nil {
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
			}
			refuse(w, r, p)
			return
		}
		rt.handle(w, r, c)
	}
}

// anyone is a handler of net/http's form that every caller may have.
func anyone(h http.Handler) handler {
	return func(w http.ResponseWriter, r *http.Request, _ *caller) { h.ServeHTTP(w, r) }
}
