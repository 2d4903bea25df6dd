package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A cost goes along as a number, and one of 1, which a server of an earlier version would
// not know, does not go at all.
func TestSendCost(t *testing.T) {
	bodies := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"id":"m","status":"accepted"}`)
	}))
	defer api.Close()
	send := func(cost string) (code int, errs string) {
		code, _, errs = weir(t, "send", "--to", "+8613800000000", "--body", "x", "--cost", cost, "--http-listen", strings.TrimPrefix(api.URL, "http://"), "--dir", t.TempDir())
		return code, errs
	}
	for cost, want := range map[string]bool{"3": true, "1000000": true, "1": false} {
		if code, errs := send(cost); code != exitOK {
			t.Fatalf("%s: exit %d: %s", cost, code, errs)
		}
		if body := <-bodies; strings.Contains(body, `"cost":`+cost) != want {
			t.Errorf("%s: %s", cost, body)
		}
	}
	for _, cost := range []string{"0", "-1", "1000001", "x"} {
		if code, errs := send(cost); code != exitUsage || !strings.Contains(errs, "cost") {
			t.Errorf("%s: exit %d: %s", cost, code, errs)
		}
	}
}

// What became of a message is the exit code of who waited for it.
func TestSendExitCodes(t *testing.T) {
	want := map[schemas.Status]int{
		schemas.StatusSent: 0, schemas.StatusDelivered: 0, schemas.StatusLimited: 3,
		schemas.StatusAccepted: 5, schemas.StatusScheduled: 5, schemas.StatusDeferred: 5, schemas.StatusQueued: 5,
		schemas.StatusSending: 5, schemas.StatusRetrying: 5, schemas.StatusUnknown: 5,
	}
	for _, status := range schemas.Statuses {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, `{"id":"m","status":"accepted"}`)
				return
			}
			fmt.Fprintf(w, `{"id":"m","status":%q}`, status)
		}))
		at := []string{"send", "--to", "+8613800000000", "--body", "x", "--timeout", "20ms", "--http-listen", strings.TrimPrefix(api.URL, "http://"), "--dir", t.TempDir()}
		code, ok := want[status]
		if !ok {
			code = 4
		}
		for args, code := range map[string]int{"--wait": code, "--wait --json": code, "--json": exitOK} {
			if got, out, errs := weir(t, append(at, strings.Fields(args)...)...); got != code || !strings.Contains(out, string(status)) && code != exitOK || errs != "" {
				t.Errorf("%s %s: exit %d, want %d: %q %q", status, args, got, code, out, errs)
			}
		}
		api.Close()
	}
	for answer, code := range map[int]int{http.StatusBadRequest: exitError, http.StatusUnauthorized: exitError, http.StatusInternalServerError: 5} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(answer)
			fmt.Fprintf(w, `{"status":%d,"title":"no"}`, answer)
		}))
		names := answer == http.StatusUnauthorized
		if got, _, errs := weir(t, "send", "--to", "+8613800000000", "--body", "x", "--http-listen", strings.TrimPrefix(api.URL, "http://"), "--dir", t.TempDir()); got != code || strings.Contains(errs, apiKeyEnv) != names {
			t.Errorf("%d: exit %d, want %d: %s", answer, got, code, errs)
		}
		api.Close()
	}
}
