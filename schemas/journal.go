package schemas

import (
	"strconv"
	"strings"
)

// JournalRecord names a record of a provider's journal: the value of the header
// weir-journal beside the status that follows from it. The provider is the status's.
type JournalRecord struct {
	Lane int32 // the journal's partition
	Seq  int64 // dense within it, from 1
}

// String returns lane/seq.
func (j JournalRecord) String() string {
	b := strconv.AppendInt(make([]byte, 0, 24), int64(j.Lane), 10)
	return string(strconv.AppendInt(append(b, '/'), j.Seq, 10))
}

// ParseJournalRecord reads lane/seq, and reports whether text is that.
func ParseJournalRecord(text string) (JournalRecord, bool) {
	lane, seq, ok := strings.Cut(text, "/")
	l, err := strconv.ParseInt(lane, 10, 32)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || err2 != nil || l < 0 || n < 1 {
		return JournalRecord{}, false
	}
	return JournalRecord{Lane: int32(l), Seq: n}, true
}
