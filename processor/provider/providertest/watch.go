package providertest

import (
	"encoding/base64"
	"io"
	"log"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

// watch is all that is said while a case runs: to the logger, the log package,
// stdout and stderr.
type watch struct {
	mu   sync.Mutex
	said strings.Builder
	not  map[string]string // what must not be said, and what it is
	pump sync.WaitGroup
	undo []func()
}

func (w *watch) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(b)
}

func watching(t tb) *watch {
	w := &watch{not: make(map[string]string)}
	was := log.Writer()
	log.SetOutput(httpcall.Quiet(w)) // as cmd/weir does
	w.undo = append(w.undo, func() { log.SetOutput(was) })
	for _, f := range []**os.File{&os.Stdout, &os.Stderr} {
		r, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		was := *f
		*f = in
		w.pump.Go(func() { _, _ = io.Copy(w, r); r.Close() })
		w.undo = append(w.undo, func() { *f = was; in.Close() })
	}
	t.Cleanup(w.end)
	return w
}

// end stops watching.
func (w *watch) end() {
	for _, fn := range w.undo {
		fn()
	}
	w.undo = nil
	w.pump.Wait()
}

func (w *watch) deps(a *Adapter) provider.Deps {
	return provider.Deps{Private: outbound.Loopback,
		Getenv:    func(k string) string { return a.Env[k] },
		Logger:    slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Receipts:  func(provider.Receipt) {},
		PublicURL: "https://weir.example",
	}
}

// leastForbidden is how long text is before it tells anything.
const leastForbidden = 6

// forbid adds what must not be said, in the forms that it has on the wire too.
func (w *watch) forbid(what, text string) {
	if len(text) < leastForbidden {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text))} {
		w.not[form] = what
	}
}

// inText returns what of the forbidden is in text.
func (w *watch) inText(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, what := range w.not {
		if strings.Contains(text, s) {
			return what
		}
	}
	return ""
}

// leak ends the watch and returns the line that said something forbidden.
func (w *watch) leak() (line, what string) {
	w.end()
	w.mu.Lock()
	said := w.said.String()
	w.mu.Unlock()
	for line := range strings.Lines(said) {
		if what := w.inText(line); what != "" {
			return line, what
		}
	}
	return "", ""
}
