package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// once makes a client that tries once.
var once = client.WithRetry(client.Retry{Tries: -1})

func TestSend(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := schemas.DecodeHTTPRequest(body, schemas.MillisOf(time.Now()))
		if err != nil || q.To != "+8613800000000" {
			t.Errorf("the server reads %q: %v", body, err)
		}
		if r.Method != "POST" || r.URL.Path != "/v1/messages" || r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(http.StatusAccepted)
		json.NewEncoder(w).Encode(client.Sent{ID: "x", Status: schemas.StatusAccepted})
	}))
	defer srv.Close()
	sent, err := client.New(srv.URL+"/", "k").Send(t.Context(), &schemas.Request{Channel: "sms", To: "+8613800000000", Body: "b"})
	if err != nil || sent.ID != "x" || sent.Status != schemas.StatusAccepted {
		t.Errorf("%+v %v", sent, err)
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name, contentType, body, retry string
		status                         int
		want                           client.Problem
		text                           string
	}{
		{
			name: "problem", contentType: "application/problem+json; charset=utf-8", status: 400,
			body: `{"type":"t","title":"Invalid request","status":400,"code":"invalid_request","detail":"d.","errors":[{"pointer":"/to","code":"required","detail":"is required"}]}`,
			want: client.Problem{Type: "t", Title: "Invalid request", Status: 400, Code: "invalid_request"},
			text: "400 Invalid request: d; /to: is required",
		},
		{
			name: "seconds", contentType: "application/problem+json", status: 503, retry: "3", body: `{"title":"T","code":"kafka_unavailable"}`,
			want: client.Problem{Title: "T", Status: 503, Code: "kafka_unavailable", RetryAfter: 3 * time.Second}, text: "503 T",
		},
		{
			name: "date that has passed", contentType: "application/problem+json", status: 503, retry: "Wed, 21 Oct 2015 07:28:00 GMT", body: `{"title":"T"}`,
			want: client.Problem{Title: "T", Status: 503}, text: "503 T",
		},
		{
			name: "a proxy's page", contentType: "text/html", status: 502, body: "<html>", retry: "soon",
			want: client.Problem{Type: "about:blank", Title: "Bad Gateway", Status: 502}, text: "502 Bad Gateway",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				if tt.retry != "" {
					w.Header().Set("Retry-After", tt.retry)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			_, err := client.New(srv.URL, "", once).Get(t.Context(), "x")
			p, ok := errors.AsType[*client.Problem](err)
			if !ok {
				t.Fatalf("%T %v", err, err)
			}
			if p.Type != tt.want.Type || p.Title != tt.want.Title || p.Status != tt.want.Status || p.Code != tt.want.Code || p.RetryAfter != tt.want.RetryAfter {
				t.Errorf("%+v", p)
			}
			if p.Error() != tt.text {
				t.Errorf("%q", p.Error())
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	for _, base := range []string{"http://127.0.0.1:1", "::"} {
		_, err := client.New(base, "", once).Get(t.Context(), "x")
		if _, ok := errors.AsType[*client.Problem](err); err == nil || ok {
			t.Errorf("%s: %v", base, err)
		}
	}
}
