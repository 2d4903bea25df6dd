package replicatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-faster/city"
)

// protocol is the version of the exchange that is spoken: the last before each part
// has an id of its own.
const protocol = 4

// exchange sends parts to other replicas.
type exchange struct {
	engine string // where this replica's own engine answers
}

func (e exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	replica, ok := strings.CutPrefix(r.FormValue("endpoint"), "DataPartsExchange:")
	if !ok {
		http.Error(w, "only parts are exchanged here", http.StatusNotFound)
		return
	}
	dir, err := e.find(r.Context(), replica, r.FormValue("part"))
	if err == nil {
		err = send(w, dir)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// find asks where a part is.
func (e exchange) find(ctx context.Context, replica, part string) (string, error) {
	q := url.Values{
		"query": {`SELECT path FROM system.parts WHERE name = {part:String}
    AND (database, table) IN (SELECT database, table FROM system.replicas WHERE replica_path = {replica:String}) FORMAT TSVRaw`},
		"param_part": {part}, "param_replica": {replica},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.engine+"/?"+q.Encode(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("look for part %s: %w", part, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	dir := strings.TrimSpace(string(text))
	if err != nil || resp.StatusCode != http.StatusOK || dir == "" || strings.Contains(dir, "\n") {
		return "", fmt.Errorf("there is no part %s of %s: HTTP %d, %s (%v)", part, replica, resp.StatusCode, dir, err)
	}
	return dir, nil
}

// send writes a part: the sizes, and each file with the hash of what is in it.
func send(w http.ResponseWriter, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("send a part: %w", err)
	}
	contents := make([][]byte, len(entries))
	var total uint64
	for i, f := range entries {
		if contents[i], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			return fmt.Errorf("send a part: %w", err)
		}
		total += uint64(len(contents[i]))
	}
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := binary.LittleEndian.AppendUint64(nil, total)
	b = text(b, "ttl format version: 1\n{}") // for the choice of a disk only
	b = text(b, "Wide")                      // likewise: the files say what it is
	b = binary.LittleEndian.AppendUint64(b, uint64(len(entries)))
	http.SetCookie(w, &http.Cookie{Name: "server_protocol_version", Value: fmt.Sprint(protocol)})
	for i, f := range entries {
		b = binary.LittleEndian.AppendUint64(text(b, f.Name()), uint64(len(contents[i])))
		hash := hashed(contents[i])
		b = binary.LittleEndian.AppendUint64(append(b, contents[i]...), hash.Low)
		b = binary.LittleEndian.AppendUint64(b, hash.High)
		if _, err := w.Write(b); err != nil {
			return nil // whoever fetched is gone, and tries again
		}
		b = b[:0]
	}
	return nil
}

// hashed is ClickHouse's hash of a file: each piece of 2048 bytes seeds the next.
func hashed(b []byte) (h city.U128) {
	for len(b) > 0 {
		n := min(len(b), 2048)
		h = city.CH128Seed(b[:n], h)
		b = b[n:]
	}
	return h
}
