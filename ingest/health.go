package ingest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

const (
	pulseTimeout = time.Second            // for Kafka to answer
	pulseAge     = 500 * time.Millisecond // how long an answer counts: whoever asks often does not burden Kafka
)

// pulse tells whether Kafka answers.
type pulse struct {
	ping func(context.Context) error

	mu  sync.Mutex
	at  time.Time
	err error
}

func (p *pulse) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) > pulseAge {
		ctx, cancel := context.WithTimeout(context.Background(), pulseTimeout)
		defer cancel()
		p.err = p.ping(ctx)
		p.at = time.Now()
	}
	return p.err
}

// state is the answer of /healthz and /readyz.
type state struct {
	Status string `json:"status"`
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request, _ *caller) {
	answer(w, http.StatusOK, "application/json", state{"ok"})
}

// getReady answers 503 with every reason not to send requests here.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request, _ *caller) {
	var reasons []client.FieldError
	if s.draining.Load() {
		reasons = append(reasons, client.FieldError{Code: "shutting_down", Detail: "the server is shutting down"})
	}
	if err := s.pulse.check(); err != nil {
		reasons = append(reasons, client.FieldError{Code: kafkaUnavailable.code, Detail: "Kafka does not answer"})
	}
	if !s.tail.caughtUp.Load() {
		reasons = append(reasons, client.FieldError{Code: "catching_up", Detail: "the tail of the statuses has not caught up"})
	}
	if s.stuck != nil {
		for _, stage := range s.stuck() {
			reasons = append(reasons, client.FieldError{Code: "stage_stuck", Detail: stage.String()})
		}
	}
	if len(reasons) > 0 {
		refuse(w, r, after(notReady.problem("errors lists why.", reasons...), time.Second))
		return
	}
	answer(w, http.StatusOK, "application/json", state{"ready"})
}

func getOpenAPI(w http.ResponseWriter, _ *http.Request, _ *caller) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(schemas.OpenAPI)
}
