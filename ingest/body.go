package ingest

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// mediaTypeOf returns the type of the body in small letters, without its
// parameters; "" where the header does not say, or cannot be read.
func mediaTypeOf(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// encoded refuses a body that is packed: what it would grow to is not known
// before it is unpacked.
func encoded(h http.Header) *client.Problem {
	for _, e := range h["Content-Encoding"] {
		if e != "" && !strings.EqualFold(e, "identity") {
			return unsupportedMediaType.problem("The body must come without a Content-Encoding.")
		}
	}
	return nil
}

// wrongType refuses what says of itself that it is no JSON. Any other type is
// read as JSON: curl -d says application/x-www-form-urlencoded, and the strict
// decoder tells anyway.
func wrongType(h http.Header) *client.Problem {
	if p := encoded(h); p != nil {
		return p
	}
	switch major, minor, _ := strings.Cut(mediaTypeOf(h), "/"); {
	case major == "multipart", major == "image", major == "audio", major == "video", major == "font",
		strings.Contains(minor, "protobuf"), strings.Contains(minor, "ndjson"), strings.Contains(minor, "cloudevents"),
		minor == "html", minor == "xml", strings.HasSuffix(minor, "+xml"):
		return unsupportedMediaType.problem("The body is one JSON object: Content-Type: application/json.")
	}
	return nil
}

// readBody returns a body that may be JSON, whole, of at most a request's size.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *client.Problem) {
	return readUpTo(w, r, schemas.MaxRequestBytes, oversized)
}

// readUpTo returns a body that may be JSON, whole; tooBig makes the problem of
// one that has over most bytes.
func readUpTo(w http.ResponseWriter, r *http.Request, most int64, tooBig func() *client.Problem) ([]byte, *client.Problem) {
	if p := wrongType(r.Header); p != nil {
		return nil, p
	}
	if r.ContentLength > most {
		w.Header().Set("Connection", "close") // rather than read what is thrown away
		return nil, tooBig()
	}
	// A little at first, and more as it comes: thousands may say that much will.
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 4<<10)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		connOf(r).working()
		return body.Bytes(), nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooBig()
	}
	return nil, broken(w, err)
}

// broken is the problem of a body that cannot be read to its end.
func broken(w http.ResponseWriter, err error) *client.Problem {
	w.Header().Set("Connection", "close")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return requestTimeout.problem("The body must come within " + readTimeout.String() + ".")
	}
	return incompleteBody.problem("The connection ended within it, or its chunks are invalid.")
}

func oversized() *client.Problem {
	return tooLarge.problem("A request has at most 256 KiB.",
		client.FieldError{Pointer: "", Code: schemas.ReasonTooLarge, Detail: "is over 262144 bytes with its id and tenant"})
}

// invalid makes a problem of what the decoder or the recipient's rules say.
func invalid(err error) *client.Problem {
	if bad, ok := errors.AsType[*recipient.Error](err); ok {
		return invalidRequest.problem("Nobody can be reached at to.", client.FieldError{Pointer: "/to", Code: bad.Code(), Detail: bad.Detail})
	}
	p := invalidRequest.problem("errors lists what is wrong.")
	if bad, ok := errors.AsType[*schemas.RequestError](err); ok {
		for _, f := range bad.Problems {
			p.Errors = append(p.Errors, client.FieldError{Pointer: f.Pointer, Code: f.Code, Detail: f.Message})
		}
	}
	return p
}
