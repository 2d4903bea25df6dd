package e2e

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const clientsPage = "../../../docs/clients.md"

// typescript is what checks and compiles the example in TypeScript.
const (
	typescript    = "typescript@5.9.3"
	typescriptSum = "sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
)

const typescriptConfig = `{"files": ["weir.mts"], "compilerOptions": {"strict": true, "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"], "types": []}}`

// errNoRuntime says what is missing on this machine.
var errNoRuntime = errors.New("missing")

func found(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%w: %s", errNoRuntime, name)
	}
	return nil
}

// exampleLanguages are those of the page, each with how to make a command of its
// code in a directory.
var exampleLanguages = []struct {
	fence   string
	command func(ctx context.Context, dir, code string) (*exec.Cmd, error)
}{
	{"python", func(ctx context.Context, dir, code string) (*exec.Cmd, error) {
		file := filepath.Join(dir, "weir.py")
		return exec.CommandContext(ctx, "python3", file), errors.Join(found("python3"), os.WriteFile(file, []byte(code), 0o644))
	}},
	{"java", func(ctx context.Context, dir, code string) (*exec.Cmd, error) {
		file := filepath.Join(dir, "Weir.java")
		return exec.CommandContext(ctx, "java", file), errors.Join(found("java"), os.WriteFile(file, []byte(code), 0o644))
	}},
	{"ts", func(ctx context.Context, dir, code string) (*exec.Cmd, error) {
		if err := errors.Join(found("node"), found("npm")); err != nil {
			return nil, err
		}
		compiler, err := fetchTypeScript(ctx, dir)
		if err == nil {
			err = errors.Join(os.WriteFile(filepath.Join(dir, "weir.mts"), []byte(code), 0o644),
				os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(typescriptConfig), 0o644))
		}
		if err != nil {
			return nil, err
		}
		tsc := exec.CommandContext(ctx, "node", compiler, "--project", dir)
		if out, err := tsc.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tsc: %w\n%s", err, out)
		}
		return exec.CommandContext(ctx, "node", filepath.Join(dir, "weir.mjs")), nil
	}},
}

// fetchTypeScript returns the compiler, fetched by npm and checked.
func fetchTypeScript(ctx context.Context, dir string) (string, error) {
	pack := exec.CommandContext(ctx, "npm", "pack", "--ignore-scripts", "--loglevel=error", typescript)
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm cannot fetch %s: %w: %s", typescript, err, out)
	}
	file := filepath.Join(dir, strings.Replace(typescript, "@", "-", 1)+".tgz")
	ball, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha512.Sum512(ball)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != typescriptSum {
		return "", fmt.Errorf("%s is %s, not %s", typescript, got, typescriptSum)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xzf", file, "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w: %s", typescript, err, out)
	}
	return filepath.Join(dir, "package", "lib", "tsc.js"), nil
}

// The clients that the page shows run as they stand there, against weir dev, and
// through a proxy that refuses and breaks the first tries of some of their
// calls.
func TestClientsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(clientsPage)
	if err != nil {
		t.Fatal(err)
	}
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), anyPorts...)
	for i, language := range exampleLanguages {
		t.Run(language.fence, func(t *testing.T) {
			t.Parallel() // most of the time they wait
			code, ok := fenced(string(page), language.fence)
			if !ok {
				t.Fatalf("the page has no %s", language.fence)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			cmd, err := language.command(ctx, t.TempDir(), code)
			if errors.Is(err, errNoRuntime) && os.Getenv("CI") == "" {
				t.Skipf("NOT RUN: the client in %s. %v", language.fence, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			proxy := newRoughProxy(t, d.HTTP)
			cmd.Env = append(os.Environ(), "WEIR_URL="+proxy.URL, fmt.Sprintf("TO=+861380000010%d", i))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
			}
			t.Logf("CLIENT %s: %s", language.fence, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " | "))
			if !clientSays.Match(out) {
				t.Errorf("prints\n%s\nwant\n%s", out, clientSays)
			}
			proxy.check(t)
		})
	}
}

// clientSays is what each of them prints.
var clientSays = regexp.MustCompile(`^queued; verify 1/60s: 0 left.*
limited by verify 1/60s until 20[0-9-]+T[0-9:.]+Z
one message: [tT]rue
0 accepted
1 invalid_request
2 accepted
$`)

// fenced returns the first block of code of a language.
func fenced(page, language string) (string, bool) {
	_, rest, ok := strings.Cut(page, "\n```"+language+"\n")
	code, _, closed := strings.Cut(rest, "\n```\n")
	return code + "\n", ok && closed
}

// timerSlack is how much too early a runtime's timer may end: Node.js counts from when
// its loop last looked at the clock. Who does not wait comes a second too early.
const timerSlack = 100 * time.Millisecond

// roughProxy stands before Weir and makes a client's life hard: the first call
// and each batch succeed at the fourth try.
type roughProxy struct {
	*httptest.Server
	mu    sync.Mutex
	tries map[string][]time.Time // of each call
	rough map[string]bool        // whether it is one that fails first
	wait  map[string]time.Time   // when it may be tried again
	early []string
}

func newRoughProxy(t *testing.T, addr string) *roughProxy {
	p := &roughProxy{tries: make(map[string][]time.Time), rough: make(map[string]bool), wait: make(map[string]time.Time)}
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		// A call that is tried again is the same to the byte.
		call := r.Method + r.URL.Path + r.Header.Get("Idempotency-Key") + string(body)
		now := time.Now()
		if now.Add(timerSlack).Before(p.wait[call]) {
			p.early = append(p.early, r.URL.Path)
		}
		if len(p.tries) == 0 || strings.HasSuffix(r.URL.Path, "/batch") {
			p.rough[call] = true
		}
		p.tries[call] = append(p.tries[call], now)
		n := len(p.tries[call])
		fault := ""
		switch {
		case !p.rough[call] || n > 3:
		case n == 1:
			fault = "reset"
		case n == 2:
			fault = "1"
			p.wait[call] = now.Add(time.Second)
		case n == 3:
			at := now.Add(2 * time.Second).Truncate(time.Second)
			fault = at.UTC().Format(http.TimeFormat)
			p.wait[call] = at
		}
		p.mu.Unlock()
		switch {
		case fault == "":
			through.ServeHTTP(w, r)
		case fault == "reset":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		default:
			status, typ := http.StatusServiceUnavailable, "kafka-unavailable"
			if n == 3 {
				status, typ = http.StatusTooManyRequests, "client-rate"
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", fault)
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"type":"https://github.com/weirhq/weir/problems/%s","title":"T","status":%d}`, typ, status)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// check holds the client to what the page says: it came back for what passes,
// with the same call, and not too early.
func (p *roughProxy) check(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.early) > 0 {
		t.Errorf("came back before it was told to: %v", p.early)
	}
	counts := make(map[int]int)
	for _, at := range p.tries {
		counts[len(at)]++
	}
	// send and wait, a second that is limited, one under a key twice, a batch:
	// the first and the batch are rough.
	if len(p.tries) != 4 || counts[4] != 2 || counts[2] != 1 || counts[1] != 1 {
		t.Errorf("calls by their tries: %v", counts)
	}
}
