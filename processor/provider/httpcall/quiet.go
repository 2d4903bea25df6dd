package httpcall

import (
	"bytes"
	"io"
)

// Quiet returns a writer for the log package that keeps what a provider sent out
// of w. Where a provider sends more than its answer, net/http tells the log
// package so and quotes it, and there is no other way to stop it.
func Quiet(w io.Writer) io.Writer { return quiet{w} }

type quiet struct{ w io.Writer }

func (q quiet) Write(line []byte) (int, error) {
	out := line
	if i := bytes.Index(line, []byte(" starting with ")); i >= 0 && bytes.Contains(line[:i], []byte("Unsolicited response")) {
		out = append(bytes.Clone(line[:i]), '\n')
	}
	if _, err := q.w.Write(out); err != nil {
		return 0, err
	}
	return len(line), nil
}
