package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func pages(t *testing.T) *Pages {
	t.Helper()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	p, err := New(fstest.MapFS{
		"index.html": file("<p>index"), "index.html.br": file("BR"), "index.html.gz": file("GZ"),
		"assets/a-1x2y.js": file("let a"), "assets/a-1x2y.js.gz": file("GZ"), "icon.svg": file("<svg/>"), ".gitkeep": file(""), "assets/.map": file("x"), "alone.gz": file("x"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(p *Pages, method, name string, headers ...string) (*http.Response, string, bool) {
	r := httptest.NewRequest(method, "/console/"+name, nil)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Add(k, v)
	}
	w := httptest.NewRecorder()
	ok := p.Serve(w, r, name)
	resp := w.Result()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body), ok
}

func TestServe(t *testing.T) {
	p := pages(t)
	for _, c := range []struct {
		name, path    string
		accept, body  string
		encoding      string
		cache, is     string
		vary, missing bool
	}{
		{name: "the index", path: "", body: "<p>index", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "the index by name", path: "index.html", body: "<p>index", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "the index, as browsers ask", path: "", accept: "gzip, deflate, br, zstd", body: "BR", encoding: "br", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "no brotli", path: "", accept: "gzip", body: "GZ", encoding: "gzip", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "brotli refused", path: "", accept: "br;q=0, *", body: "GZ", encoding: "gzip", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "gzip liked better", path: "", accept: "br;q=0.5,gzip;q=0.9", body: "GZ", encoding: "gzip", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "none that there is", path: "", accept: "zstd", body: "<p>index", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "a quality that is none", path: "", accept: "br;q=2, gzip;q=x", body: "<p>index", cache: "no-cache", is: "text/html; charset=utf-8", vary: true},
		{name: "an asset", path: "assets/a-1x2y.js", accept: "br, gzip", body: "GZ", encoding: "gzip", cache: "public, max-age=31536000, immutable", is: "text/javascript; charset=utf-8", vary: true},
		{name: "a file without forms", path: "icon.svg", accept: "br, gzip", body: "<svg/>", cache: "no-cache", is: "image/svg+xml"},
		{name: "a form by itself", path: "index.html.br", missing: true},
		{name: "a form of nothing", path: "alone.gz", missing: true},
		{name: "a folder", path: "assets/", missing: true},
		{name: "hidden", path: ".gitkeep", missing: true},
		{name: "hidden below", path: "assets/.map", missing: true},
		{name: "above", path: "../console.go", missing: true},
		{name: "unknown", path: "nothing.js", missing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{}
			if c.accept != "" {
				headers = append(headers, "Accept-Encoding: "+c.accept)
			}
			resp, body, ok := get(p, "GET", c.path, headers...)
			if ok == c.missing {
				t.Fatalf("served: %v", ok)
			}
			if c.missing {
				return
			}
			h := resp.Header
			if resp.StatusCode != 200 || body != c.body || h.Get("Content-Encoding") != c.encoding || h.Get("Cache-Control") != c.cache || h.Get("Content-Type") != c.is || (h.Get("Vary") != "") != c.vary || h.Get("Content-Security-Policy") != Policy {
				t.Errorf("%d %q %v", resp.StatusCode, body, h)
			}
			if resp.ContentLength != int64(len(body)) {
				t.Errorf("length %d of %d", resp.ContentLength, len(body))
			}
			head, none, _ := get(p, "HEAD", c.path, headers...)
			if none != "" || head.Header.Get("Content-Length") != h.Get("Content-Length") || head.Header.Get("ETag") != h.Get("ETag") {
				t.Errorf("HEAD: %q %v", none, head.Header)
			}
			again, none, _ := get(p, "GET", c.path, append(headers, "If-None-Match: "+h.Get("ETag"))...)
			if again.StatusCode != http.StatusNotModified || none != "" || again.Header.Get("Content-Length") != "" {
				t.Errorf("again: %d %q %v", again.StatusCode, none, again.Header)
			}
		})
	}
	if resp, body, _ := get(p, "GET", "", "Range: bytes=3-5", "Accept-Encoding: br"); resp.StatusCode != http.StatusPartialContent || body != "ind" || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("a range: %d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, _, _ := get(p, "GET", "", "Range: bytes=90-"); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range beyond it: %d", resp.StatusCode)
	}
	if resp, body, _ := get(p, "GET", "", "If-Match: \"other\"", "Accept-Encoding: br"); resp.StatusCode != http.StatusPreconditionFailed || body != "" {
		t.Errorf("another version: %d %q", resp.StatusCode, body)
	}
}

func TestUnbuilt(t *testing.T) {
	p, err := New(fstest.MapFS{".gitkeep": &fstest.MapFile{}})
	if err != nil {
		t.Fatal(err)
	}
	if resp, body, ok := get(p, "GET", ""); !ok || resp.StatusCode != 200 || !strings.Contains(body, "make console") {
		t.Errorf("%v %q", ok, body)
	}
	if _, _, ok := get(p, "GET", "assets/x.js"); ok {
		t.Error("there is something")
	}
}

// TestBuilt: what is in this program can be read; and if it was built, each form is
// of the file, and no page breaks the policy it is served under.
func TestBuilt(t *testing.T) {
	p, err := Built()
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := get(p, "GET", "")
	if !ok || !strings.Contains(page, "Weir") {
		t.Fatalf("%q", page)
	}
	if strings.Contains(page, "was not built") {
		t.Log("NOT BUILT: the pages of the console (make console)")
		return
	}
	if strings.Contains(page, "<style") || strings.Contains(page, " style=") || strings.Contains(page, "<script>") {
		t.Errorf("it has script or style of its own, which the policy forbids: %s", page)
	}
	n := 0
	for name, f := range p.files {
		for _, form := range f.forms {
			if form.encoding != "gzip" {
				continue
			}
			n++
			z, err := gzip.NewReader(bytes.NewReader(form.body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, f.forms[len(f.forms)-1].body) {
				t.Errorf("%s.gz is another file: %v", name, err)
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d compressed files", n)
	}
}
