package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// stream answers a connection with text, and holds it open if it says so.
type stream struct {
	text string
	hold bool
}

// A stream goes on where it broke off, however it is cut into connections.
func TestEvents(t *testing.T) {
	event := func(id, message string) string {
		return "id: " + id + "\nevent: status\ndata: {\"kind\":\"status\",\"message_id\":\"" + message + "\",\"status\":\"sent\",\"at\":\"2026-11-21T12:00:00.000Z\"}\n\n"
	}
	tests := []struct {
		name    string
		streams []stream
		want    string // ids of messages
		asked   string // Last-Event-IDs
		err     string
	}{
		{name: "one connection", streams: []stream{{text: ": hello\n\nretry: x\n\n" + event("1", "a") + event("2", "b"), hold: true}}, want: "1a 2b ", asked: "0"},
		{name: "cut between events", streams: []stream{{text: event("1", "a")}, {text: event("2", "b"), hold: true}}, want: "1a 2b ", asked: "0 1"},
		{name: "cut within one", streams: []stream{{text: event("1", "a") + "id: 2\ndata: {\"kind\":"}, {text: event("2", "b"), hold: true}}, want: "1a 2b ", asked: "0 1"},
		{name: "without ids it begins where it was", streams: []stream{{text: "data:{\"message_id\":\"a\"}\r\n\r\n"}, {text: event("2", "b"), hold: true}}, want: "0a 2b ", asked: "0 0"},
		{name: "data of many lines", streams: []stream{{text: "id: 1\ndata: {\"message_id\":\ndata: \"a\"}\n\n", hold: true}}, want: "1a ", asked: "0"},
		{name: "a beat moves on", streams: []stream{{text: event("1", "a") + ": here\nid: 7\n\n"}, {text: event("8", "b"), hold: true}}, want: "1a 8b ", asked: "0 7"},
		{name: "a gap", streams: []stream{{text: "event: gap\nid: 5\ndata: {\"reason\":\"forgotten\"}\n\n" + event("6", "b"), hold: true}}, want: "gap 5 6b ", asked: "0"},
		{name: "the server ends it", streams: []stream{{text: event("1", "a") + "event: end\nid: 2\ndata: {\"reason\":\"shutting_down\"}\n\n"}, {text: event("3", "b"), hold: true}}, want: "1a 3b ", asked: "0 2"},
		{name: "the end of all", streams: []stream{{text: event("1", "a")}, {}}, want: "1a ", asked: "0 1"},
		{name: "what is no event", streams: []stream{{text: "data: x\n\n"}}, err: "an event is not what this client reads", asked: "0"},
		{name: "nothing comes, again and again", streams: []stream{{text: ":"}, {text: ":"}, {text: ":"}, {text: ":"}}, err: "the stream ended", asked: "0 0 0 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := len(asked)
				asked = append(asked, r.Header.Get("Last-Event-ID"))
				if r.URL.RequestURI() != "/v1/events?channel=sms&status=sent%2Cfailed" || n == len(tt.streams) {
					t.Errorf("connection %d: %s", n, r.URL)
					return
				}
				if tt.streams[n].text == "" {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, tt.streams[n].text)
				http.NewResponseController(w).Flush()
				if tt.streams[n].hold {
					<-r.Context().Done()
				}
			}))
			defer srv.Close()
			c := client.New(srv.URL, "k", client.WithRetry(quick))
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			got := ""
			for e, err := range c.Events(ctx, client.EventQuery{Status: []schemas.Status{"sent", "failed"}, Channel: "sms", After: "0"}) {
				if err != nil {
					if tt.err == "" && !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.err) {
						t.Error(err)
					}
					got += "error "
					continue
				}
				if e.Gap {
					got += "gap "
				}
				got += e.ID + e.Event.MessageID + " "
				if strings.HasSuffix(tt.want, got) && tt.streams[len(tt.streams)-1].hold && strings.Contains(got, tt.want) {
					cancel()
				}
			}
			want := tt.want
			if tt.err != "" || tt.streams[len(tt.streams)-1].hold {
				want += "error "
			}
			if got != want || strings.Join(asked, " ") != tt.asked {
				t.Errorf("%q after %q, want %q after %q", got, asked, want, tt.asked)
			}
		})
	}
}

// A client comes back no sooner than the stream says.
func TestEventsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		c := handler(func(w http.ResponseWriter, r *http.Request) {
			if at = append(at, time.Now()); len(at) == 3 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "retry: 2000\ndata: {}\n\n")
		}).client()
		for _, err := range c.Events(t.Context(), client.EventQuery{}) {
			if err != nil {
				t.Error(err)
			}
		}
		for i := range at[1:] {
			if d := at[i+1].Sub(at[i]); d < 2*time.Second || d > 2100*time.Millisecond {
				t.Errorf("connection %d after %v", i+1, d)
			}
		}
	})
}

// A stream is not bounded by the time of a call, its beginning is.
func TestEventsTimes(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "never" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for i := range 10 {
			fmt.Fprintf(w, "id: %d\ndata: {}\n\n", i)
			http.NewResponseController(w).Flush()
			<-tick.C
		}
	}))
	defer srv.Close()
	short := client.Retry{Tries: 1, Total: 1500 * time.Millisecond}
	c := client.New(srv.URL, "", client.WithRetry(short), client.WithTimeout(1500*time.Millisecond))
	defer c.Close()
	n := 0
	for _, err := range c.Events(t.Context(), client.EventQuery{}) {
		if err != nil {
			break
		}
		n++
	}
	if n != 10 {
		t.Errorf("%d events", n)
	}
	for _, err := range c.Events(t.Context(), client.EventQuery{After: "never"}) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

// Whoever stops reading ends the connection.
func TestEventsAreLeft(t *testing.T) {
	left := make(chan bool, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- true
	}))
	defer srv.Close()
	c := client.New(srv.URL, "", once)
	defer c.Close()
	for range c.Events(t.Context(), client.EventQuery{}) {
		break
	}
	select {
	case <-left:
	case <-time.After(2 * time.Minute):
		t.Error("the connection stays")
	}
}
