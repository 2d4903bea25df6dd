// Package console is the pages for people: an application in TypeScript, built by
// make console into dist, embedded in the program, and served here as it is.
//
// It knows nothing of messages: the pages ask the HTTP API for everything, with the
// session of whoever signed in. Who may have a page is nobody's secret, so no key
// is asked for here.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// Policy is the Content-Security-Policy of the pages (W3C CSP 3): all they have
// and all they ask comes from here.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// dist is what make console has built; without it there is .gitkeep alone.
//
//go:embed all:dist
var dist embed.FS

// index is the page at the root.
const index = "index.html"

// hashed is the folder whose files change their names with their content.
const hashed = "assets/"

// unbuilt is the page of a program that was built without the pages.
const unbuilt = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Weir</title>
<h1>The console was not built</h1>
<p>This program was built without its pages. <code>make console</code> builds them (npm comes with Node.js), and
<code>make build</code> puts them into the program.</p>
<p>The same answers are in the <a href="/openapi.yaml">HTTP API</a> and on the command line: <code>weir status</code>, <code>weir tail</code>.</p>
</html>
`

// Pages are files to serve, in memory. They may be used from many goroutines.
type Pages struct {
	files map[string]*file
	begun time.Time
}

// file is one file, with its compressed forms.
type file struct {
	contentType string
	forms       []form // identity last
}

type form struct {
	encoding string // of Content-Encoding; empty is none
	tag      string // ETag
	body     []byte
}

// Built returns the pages in this program.
func Built() (*Pages, error) {
	root, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("open the console's pages: %w", err)
	}
	return New(root)
}

// New reads pages from a folder that has index.html, and beside a file its
// compressed forms with .br and .gz behind the name. A folder without index.html
// has not been built: the page then says so. Files that begin with a dot are none.
func New(root fs.FS) (*Pages, error) {
	p := &Pages{files: make(map[string]*file)}
	all := make(map[string][]byte)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		all[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	if all[index] == nil {
		all = map[string][]byte{index: []byte(unbuilt)}
	}
	for name, body := range all {
		if ext := path.Ext(name); ext == ".br" || ext == ".gz" {
			continue
		}
		f := &file{contentType: typeOf(name)}
		for _, c := range []struct{ ext, encoding string }{{".br", "br"}, {".gz", "gzip"}} {
			if packed, ok := all[name+c.ext]; ok {
				f.forms = append(f.forms, formOf(c.encoding, packed))
			}
		}
		f.forms = append(f.forms, formOf("", body))
		p.files[name] = f
	}
	return p, nil
}

func formOf(encoding string, body []byte) form {
	sum := sha256.Sum256(body)
	return form{encoding, `"` + hex.EncodeToString(sum[:16]) + `"`, body}
}

// typeOf is not mime.TypeByExtension, which asks the machine.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".json", ".webmanifest":
		return "application/json"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	}
	return "application/octet-stream"
}

// Serve answers GET and HEAD for a file, of which name is the path below the root;
// the empty name is the index. It reports false, and has answered nothing, where
// there is no such file. Ranges and conditions are as RFC 9110 has them; a range is
// one of the file as it is, not of a compressed form.
func (p *Pages) Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	if name == "" {
		name = index
	}
	f := p.files[name]
	if f == nil {
		return false
	}
	h := w.Header()
	accept := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	if r.Header.Get("Range") != "" {
		accept = ""
	}
	is := f.choose(accept)
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Security-Policy", Policy)
	h.Set("ETag", is.tag)
	if len(f.forms) > 1 {
		h.Set("Vary", "Accept-Encoding")
	}
	if strings.HasPrefix(name, hashed) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if is.encoding != "" {
		h.Set("Content-Encoding", is.encoding)
		if r.Header.Get("If-Match") == "" { // ServeContent leaves the length of what is encoded out
			h.Set("Content-Length", strconv.Itoa(len(is.body)))
		}
	}
	http.ServeContent(w, r, "", p.begun, bytes.NewReader(is.body))
	return true
}

// choose returns the form that the caller likes best, the smallest among equals.
func (f *file) choose(accept string) *form {
	best, liked := &f.forms[len(f.forms)-1], 0.0
	for i := range f.forms {
		if q := quality(accept, f.forms[i].encoding); f.forms[i].encoding != "" && q > liked {
			best, liked = &f.forms[i], q
		}
	}
	return best
}

// quality is how much a caller likes an encoding (RFC 9110, 12.5.3): 0 is not at
// all.
func quality(accept, encoding string) (q float64) {
	for item := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(item, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != encoding && name != "*" && (name != "x-gzip" || encoding != "gzip") {
			continue
		}
		v := 1.0
		if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q="); ok {
			var err error
			if v, err = strconv.ParseFloat(text, 64); err != nil || v < 0 || v > 1 {
				v = 0
			}
		}
		if name != "*" {
			return v
		}
		q = v
	}
	return q
}
