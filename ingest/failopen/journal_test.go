package failopen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func entry(i int) Entry {
	return Record(&schemas.Request{Channel: schemas.ChannelSMS, To: "138", Body: "<a&b>", ID: fmt.Sprintf("%08d-2a3b-7c4d-8e5f-60718293a4b5", i), IdempotencyKey: "k", SendAt: 1, ExpiresAt: 2, CallbackURL: "https://x"}, "+86138", 1_700_000_000_000)
}

func open(t *testing.T, dir string, most int64) *Journal {
	t.Helper()
	j, err := Open(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func requests(t *testing.T, j *Journal, n int) (out []string, through int64) {
	t.Helper()
	all, through, err := j.Next(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		out = append(out, string(e.Request))
	}
	return out, through
}

// What was accepted is there after a crash, in order, and only for its owner to read; a line
// that the crash cut off is not. What is done does not come again.
func TestJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	j := open(t, dir, 1<<20)
	for i := range 3 {
		if err := j.Append(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, FileName)
	if is, err := os.Stat(name); err != nil || is.Mode().Perm() != 0o600 || is.Size() != j.Bytes() {
		t.Errorf("%v %v, %d bytes", is.Mode(), err, j.Bytes())
	}
	if _, err := Open(dir, 1<<20); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	first, through := requests(t, j, 1)
	q, err := schemas.DecodeRequest([]byte(first[0]), nil)
	if err != nil || q.Action != schemas.ActionRecord || q.ID != "00000000-2a3b-7c4d-8e5f-60718293a4b5" || q.IdempotencyKey != "k" || q.At != 1_700_000_000_000 || q.Body != "<a&b>" || q.SendAt != 0 || q.ExpiresAt != 0 || q.CallbackURL != "" || !bytes.Contains([]byte(first[0]), []byte("<a&b>")) {
		t.Errorf("%s %v", first[0], err)
	}
	if err := j.Done(through); err != nil || j.Bytes() == 0 {
		t.Errorf("%v: %d bytes", err, j.Bytes())
	}
	j.Close() // a crash loses what is done and not all
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"to":"+86138","requ`)
	f.Close()

	j = open(t, dir, 1<<20)
	all, through := requests(t, j, 99)
	if len(all) != 3 || all[0] != first[0] {
		t.Errorf("%q", all)
	}
	if err := j.Append(entry(3)); err != nil {
		t.Fatal(err)
	}
	if err := j.Done(through); err != nil || j.Bytes() == 0 {
		t.Errorf("emptied with an entry that came in between: %v", err)
	}
	all, through = requests(t, j, 99)
	if q, err := schemas.DecodeRequest([]byte(all[0]), nil); len(all) != 1 || err != nil || q.ID[:8] != "00000003" {
		t.Errorf("%q %v", all, err)
	}
	if err := j.Done(through); err != nil || j.Bytes() != 0 {
		t.Errorf("%v: %d bytes", err, j.Bytes())
	}
	if text, err := os.ReadFile(name); err != nil || len(text) != 0 {
		t.Errorf("%q %v", text, err)
	}
}

// Many at once share writes, none is lost, and the bound holds.
func TestJournalIsBounded(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 20_000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var accepted []string
	full := 0
	for i := range 200 {
		wg.Go(func() {
			e := entry(i)
			err := j.Append(e)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accepted = append(accepted, string(e.Request))
			case errors.Is(err, ErrFull):
				full++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	j.Close()
	j = open(t, dir, 20_000)
	all, through := requests(t, j, 999)
	slices.Sort(all)
	slices.Sort(accepted)
	if full == 0 || len(accepted)+full != 200 || !slices.Equal(all, accepted) || j.Bytes() > 20_000 || j.Bytes() < 15_000 {
		t.Errorf("%d accepted, %d refused, %d in the file of %d bytes", len(accepted), full, len(all), j.Bytes())
	}
	if err := j.Append(entry(999)); !errors.Is(err, ErrFull) {
		t.Errorf("after a restart: %v", err)
	}
	if err := j.Done(through); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(entry(999)); err != nil {
		t.Errorf("after it was emptied: %v", err)
	}
}

// A journal that cannot be written refuses, and one that cannot be read is not lost.
func TestJournalFails(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	j.Close()
	if err := j.Append(entry(0)); err == nil || j.Bytes() != 0 {
		t.Errorf("%v: %d bytes", err, j.Bytes())
	}
	name := filepath.Join(dir, FileName)
	for _, text := range []string{"x\n", "{}\n", `{"to":"a","request":{},"z":1}` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, 1<<20); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: %v", text, err)
		}
		if left, err := os.ReadFile(name); err != nil || string(left) != text {
			t.Errorf("%q: %v", left, err)
		}
	}
}
