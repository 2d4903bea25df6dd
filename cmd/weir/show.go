package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// showWithin bounds each step of show.
const showWithin = 30 * time.Second

// show sends a message, and the same again, and asks ClickHouse for both, as
// somebody would who wants to see what this is.
func (d *dev) show(ctx context.Context, e *endpoints) error {
	const to, class, body = "+8613800000000", "verify", "code 1"
	const limited = "SELECT count() FROM weir.status_events WHERE status = 'limited'"
	var before string
	if e.ClickHouse != "" {
		var err error
		if before, err = askSQL(ctx, e.ClickHouse, limited); err != nil {
			return err
		}
	}
	cl := client.New("http://"+e.HTTP, "")
	for range 2 {
		fmt.Fprintf(d.stdout, "\n$ weir send --to %s --class %s --body %q --wait\n", to, class, body)
		req := &schemas.Request{To: to, Channel: "sms", Class: class, Body: body}
		err := d.send(ctx, cl, req, true, showWithin, false)
		if e, ok := errors.AsType[*exitStatus](err); ok && e.err == nil {
			err = nil // it was said what became of it
		}
		if err != nil {
			return err
		}
	}
	if e.ClickHouse == "" {
		return nil
	}
	const all = "SELECT class, status, count() FROM weir.status_events GROUP BY ALL ORDER BY ALL"
	fmt.Fprintf(d.stdout, "\n$ curl %s --data '%s'\n", masked(e.ClickHouse), all)
	for until := time.Now().Add(showWithin); ; { // what was refused is there within a second
		now, err := askSQL(ctx, e.ClickHouse, limited)
		if err != nil {
			return err
		}
		if now != before || time.Now().After(until) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	rows, err := askSQL(ctx, e.ClickHouse, all)
	fmt.Fprint(d.stdout, rows)
	return err
}

// askSQL returns ClickHouse's answer, as tab-separated text.
func askSQL(ctx context.Context, url, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(query))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("ClickHouse at %s answers %s: %s", masked(url), resp.Status, body)
	}
	return string(body), err
}
