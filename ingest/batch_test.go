package ingest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

const ndjson = "Content-Type: application/x-ndjson"

// lines returns an answer's NDJSON.
func lines(r reply) (out []client.BatchResult) {
	r.t.Helper()
	if r.code != http.StatusAccepted {
		r.t.Fatalf("%d %s", r.code, r.body)
	}
	for line := range strings.Lines(string(r.body)) {
		var one client.BatchResult
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		if one.Index != len(out) || (one.ID == "") == (one.Error == nil) {
			r.t.Fatalf("result %d: %s", len(out), line)
		}
		out = append(out, one)
	}
	return out
}

func one(to string) string {
	return fmt.Sprintf(`{"channel":"sms","to":"+86138%08s","body":"b"}`, to)
}

func TestBatch(t *testing.T) {
	w := newWorld(t, settings{})
	items := []string{one("1"), `{"channel":"sms"}`, one("2"), `{"channel":"sms","to":"+8613800000003","body":"b","bodi":"x"}`, `nonsense`, one("4")}
	want := []string{"", schemas.ReasonRequired, "", schemas.ReasonUnknownField, schemas.ReasonNotJSON, ""}
	check := func(t *testing.T, got []client.BatchResult, want []string) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%d results, want %d: %+v", len(got), len(want), got)
		}
		for i, code := range want {
			switch p := got[i].Error; {
			case code == "" && (p != nil || got[i].Status != schemas.StatusAccepted):
				t.Errorf("%d: %+v", i, got[i])
			case code != "" && (p == nil || len(p.Errors) == 0 && p.Code != code || len(p.Errors) > 0 && p.Errors[0].Code != code):
				t.Errorf("%d: %+v, want %s", i, got[i], code)
			case code != "" && p.Instance != fmt.Sprintf("/v1/messages/batch#%d", i):
				t.Errorf("%d: instance %q", i, p.Instance)
			}
		}
	}
	t.Run("lines", func(t *testing.T) {
		body := items[0] + "\n" + items[1] + "\r\n\n  " + items[2] + " \n" + items[3] + "\n" + items[4] + "\n" + items[5] // and no end
		got := lines(w.do("POST", "/v1/messages/batch", body, ndjson))
		check(t, got, want)
		to := make(map[string]string)
		for _, rec := range w.requests(3) {
			q, err := schemas.DecodeRequest(rec.Value, nil)
			if err != nil {
				t.Fatal(err)
			}
			to[q.ID] = q.To
		}
		for i, want := range map[int]string{0: "+8613800000001", 2: "+8613800000002", 5: "+8613800000004"} {
			if to[got[i].ID] != want {
				t.Errorf("message %d is to %q, want %s", i, to[got[i].ID], want)
			}
		}
	})
	t.Run("one object", func(t *testing.T) {
		valid := []string{items[0], items[1], items[2], items[3], `17`, items[5]}
		r := w.do("POST", "/v1/messages/batch", `{"messages":[`+strings.Join(valid, ",")+`]}`)
		check(t, read[client.BatchResults](r, http.StatusAccepted).Results, []string{"", schemas.ReasonRequired, "", schemas.ReasonUnknownField, schemas.ReasonNotObject, ""})
		w.requests(3)
	})
	t.Run("nothing", func(t *testing.T) {
		if got := lines(w.do("POST", "/v1/messages/batch", "\n\n", ndjson)); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		if r := w.do("POST", "/v1/messages/batch", `{"messages":[]}`); string(r.body) != `{"results":[]}`+"\n" {
			t.Errorf("%s", r.body)
		}
	})
	t.Run("too large a line between others", func(t *testing.T) {
		got := lines(w.do("POST", "/v1/messages/batch", one("5")+"\n"+pad(300<<10)+"\n"+one("6"), ndjson))
		check(t, got, []string{"", schemas.ReasonTooLarge, ""})
		w.requests(2)
	})
	t.Run("too many", func(t *testing.T) {
		got := lines(w.do("POST", "/v1/messages/batch", strings.Repeat("x\n", maxBatchItems+5), ndjson))
		if last := got[len(got)-1]; len(got) != maxBatchItems+1 || last.Error.Code != "too_large" {
			t.Errorf("%d results, the last %+v", len(got), last)
		}
		w.do("POST", "/v1/messages/batch", `{"messages":[`+strings.Repeat("1,", maxBatchItems)+`1]}`).problem(413, "too_large")
	})
	t.Run("too long", func(t *testing.T) {
		line := pad(200<<10) + "\n"
		got := lines(w.do("POST", "/v1/messages/batch", strings.Repeat(line, 90), ndjson))
		whole := maxBatchBytes / len(line)
		if len(got) != whole+1 || got[whole].Error.Code != "too_large" || got[whole-1].ID == "" {
			t.Errorf("%d results of %d", len(got), whole)
		}
		w.requests(whole)
		w.do("POST", "/v1/messages/batch", `{"messages":["`+strings.Repeat("x", maxBatchBytes)+`"]}`).problem(413, "too_large")
	})
	for name, body := range map[string]string{
		"empty": "", "a list": "[]", "text": `"x"`, "another field": `{"messages":[],"more":1}`, "none": `{}`, "no list": `{"messages":{}}`, "null": `{"messages":null}`, "cut": `{"messages":[` + one("1") + `,`,
	} {
		t.Run(name, func(t *testing.T) { w.do("POST", "/v1/messages/batch", body).problem(400, "invalid_request") })
	}
	t.Run("packed", func(t *testing.T) {
		w.do("POST", "/v1/messages/batch", "x", ndjson, "Content-Encoding: gzip").problem(415, "unsupported_media_type")
	})
}

// A batch that is sent again under its key is the same messages.
func TestBatchKey(t *testing.T) {
	w := newWorld(t, settings{})
	own := `{"channel":"sms","to":"+8613800000009","body":"b","idempotency_key":"mine"}`
	body := one("1") + "\n" + own + "\n" + one("1")
	first := lines(w.do("POST", "/v1/messages/batch", body, ndjson, "Idempotency-Key: import-17"))
	again := lines(w.do("POST", "/v1/messages/batch", body, ndjson, `Idempotency-Key: "import-17"`))
	for i := range first {
		if first[i].ID != again[i].ID {
			t.Errorf("message %d is %s and then %s", i, first[i].ID, again[i].ID)
		}
	}
	if first[0].ID == first[2].ID {
		t.Error("two messages of one batch are one")
	}
	for prefer, applied := range map[string]string{"respond-async": "respond-async", "wait=2": ""} {
		if r := w.do("POST", "/v1/messages/batch", body, ndjson, "Idempotency-Key: import-17", "Prefer: "+prefer); r.code != 202 || r.header.Get("Preference-Applied") != applied {
			t.Errorf("%s: %d %v", prefer, r.code, r.header)
		}
	}
	other := lines(w.do("POST", "/v1/messages/batch", body, ndjson, "Idempotency-Key: import-18"))
	if other[0].ID == first[0].ID || other[1].ID != first[1].ID {
		t.Errorf("another key: %+v", other)
	}
	w.do("POST", "/v1/messages/batch", body, ndjson, "Idempotency-Key: "+strings.Repeat("k", 241)).problem(400, "bad_idempotency_key")
}

// What comes before a break is in Kafka, and the answer says so.
func TestBatchBreaksOff(t *testing.T) {
	w := newWorld(t, settings{})
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	text := one("1") + "\n"
	fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text)
	w.requests(1) // before the batch's end
	fmt.Fprintf(conn, "zz\r\n")
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := lines(reply{t, resp.StatusCode, resp.Header, body})
	if len(got) != 2 || got[0].ID == "" || got[1].Error.Code != "incomplete_body" {
		t.Errorf("%s", body)
	}
}

func TestBatchBrokerAway(t *testing.T) {
	w := newWorld(t, settings{})
	w.line.cut()
	began := time.Now()
	r := w.do("POST", "/v1/messages/batch", strings.Repeat(one("1")+"\n", 100), ndjson)
	r.problem(503, "kafka_unavailable")
	if r.header.Get("Retry-After") == "" || time.Since(began) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(began), r.header)
	}
}

// A tenant whose batches do not come to their end keeps no other tenant out.
func TestBatchShare(t *testing.T) {
	w := newWorld(t, settings{policy: strings.NewReplacer("scopes: [send, read],", "scopes: [send, read], rates: {batch: bucket 100 refill 100/s},").Replace(keyedPolicy), keys: true})
	slow := func(contentType string) {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", acmeKey, contentType)
	}
	under := func(r *room) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.by["acme"]
	}
	const other = "Authorization: Bearer " + otherKey
	object := `{"messages":[` + one("1") + `]}`
	slow("application/json")
	w.until("a JSON batch under way", func() bool { return under(w.srv.batches.whole) == maxJSONBatches/2 })
	if r := w.do("POST", "/v1/messages/batch", object, auth); r.problem(503, "overloaded").Code == "" || r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	read[client.BatchResults](w.do("POST", "/v1/messages/batch", object, other), 202)
	for range maxBatches/4 - 1 {
		slow("application/x-ndjson")
	}
	w.until("batches under way", func() bool { return under(w.srv.batches.any) == maxBatches/4 })
	w.do("POST", "/v1/messages/batch", one("1"), ndjson, auth).problem(503, "overloaded")
	lines(w.do("POST", "/v1/messages/batch", one("1"), ndjson, other))
}

// TestOverloadedCostsNothing: a call that the server had no room for takes nothing from its
// caller's rate, nor from what the keys of its tenant may do together.
func TestOverloadedCostsNothing(t *testing.T) {
	w := newWorld(t, settings{policy: strings.NewReplacer("scopes: [send, read],", "scopes: [send, read], rates: {batch: bucket 3 refill 1/h, query: bucket 3 refill 1/h},",
		"- {name: other}", "- {name: other, total_rates: {batch: bucket 2 refill 1/h}}").Replace(keyedPolicy), keys: true})
	const other = "Authorization: Bearer " + otherKey
	full := func(is bool) {
		w.srv.batches.any.mu.Lock()
		defer w.srv.batches.any.mu.Unlock()
		w.srv.streams.mu.Lock()
		defer w.srv.streams.mu.Unlock()
		w.srv.batches.any.in, w.srv.streams.all = 0, 0
		if is {
			w.srv.batches.any.in, w.srv.streams.all = maxBatches, streamsOfAll
		}
	}
	full(true)
	for range 5 {
		for key, want := range map[string]string{auth: `"batch";r=3;t=0`, other: `"batch";r=2;t=0`} {
			r := w.do("POST", "/v1/messages/batch", one("1"), ndjson, key)
			if r.problem(503, "overloaded"); r.header.Get("RateLimit") != want || r.header.Get("X-RateLimit-Remaining") != want[10:11] {
				t.Errorf("%v, want %s", r.header, want)
			}
		}
		r := w.do("POST", "/api/messages/batch", `{"messages":[]}`, auth)
		if r.code != 503 || r.header.Get("RateLimit") != `"batch";r=3;t=0` {
			t.Errorf("the legacy API: %d %v", r.code, r.header)
		}
		r = w.do("GET", "/v1/events", "", auth)
		if r.problem(503, "overloaded"); r.header.Get("RateLimit") != `"query";r=3;t=0` {
			t.Errorf("a stream: %v", r.header)
		}
	}
	full(false)
	for key, n := range map[string]int{auth: 3, other: 2} {
		for range n {
			lines(w.do("POST", "/v1/messages/batch", one("1"), ndjson, key))
		}
		w.do("POST", "/v1/messages/batch", one("1"), ndjson, key).problem(429, "client_rate")
	}
}

// What a body's piece begins with is no refusal of net/http's, whatever it looks like.
func TestBodiesAreNoRefusals(t *testing.T) {
	for _, piece := range []string{
		"{\"index\":417,\"id\":\"x\"}\n\r\n", "{\"index\":431,\"id\":\"x\"}\n\r\n0\r\n\r\n", "123456789417\r\n" + plainText[2:], "HTTP/1.1 200 OK" + plainText, "",
	} {
		if got := ownRefusal([]byte(piece)); got != nil {
			t.Errorf("%q is taken for one: %s", piece, got)
		}
	}
	if ownRefusal([]byte("HTTP/1.1 400 Bad Request"+plainText+"400 Bad Request")) == nil {
		t.Error("net/http's own is not known")
	}
}

// A line that is too long is read to its end, and takes no room.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 3*schemas.MaxRequestBytes)
	in := bufio.NewReaderSize(strings.NewReader("a\r\n"+long+"\nb"), 4096)
	var buf []byte
	for i, want := range []struct {
		line string
		long bool
		err  error
	}{{"a", false, nil}, {"", true, nil}, {"b", false, io.EOF}} {
		line, isLong, err := readLine(in, buf[:0])
		if buf = line; string(line) != want.line || isLong != want.long || err != want.err {
			t.Errorf("line %d: %.20q, long %v, %v", i, line, isLong, err)
		}
		if cap(line) > 2*schemas.MaxRequestBytes {
			t.Errorf("line %d takes %d bytes", i, cap(line))
		}
	}
}
