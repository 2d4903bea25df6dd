package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Taint says what an ended attempt leaves behind for the message's end.
type Taint string

const (
	TaintNone     Taint = ""
	TaintReceived Taint = "received" // an attempt may have been received: the place stands at the end
	TaintUnknown  Taint = "unknown"  // an attempt's outcome is unknown: only sent or unknown may end the message
)

// Join returns what both leave behind: unknown outweighs received.
func (t Taint) Join(o Taint) Taint {
	switch {
	case t == TaintUnknown || o == TaintUnknown:
		return TaintUnknown
	case t == TaintReceived || o == TaintReceived:
		return TaintReceived
	}
	return TaintNone
}

// Envelope is what Weir knows of a message beside its bytes: the headers of
// records on readmit, dispatch, delay and dlq.
type Envelope struct {
	ID         string
	Key        string // canonical recipient
	Tenant     string
	Origin     Source // where its request stands
	Reason     string // Readmit… on readmit; why on the dlq
	Attempt    int    // attempts made
	Provider   string
	Priority   Priority
	Revision   int64
	DecidedAt  Millis
	AcceptedAt Millis
	ExpiresAt  Millis
	DueAt      Millis
	Place      []Charge
	Taint      Taint
	Return     string // on delay topics: the topic it goes back to
	Turn       Millis // of a deferred message that comes back before its turn: when that is
	Error      string
	LastError  string
	Tried      []Tried
	RedriveOf  string
	Timestamp  Millis   // the producer's own, where it gives one
	Round      *Round   // on its way round the owners of wide limits; nil elsewhere
	Restore    []Charge // on an unwind: old places to put back
	RequestKey string   // the request's own record key: any bytes; empty is none, or the canonical recipient
	// CallbackURL is the request's own: where its statuses are told. It travels, so
	// that they name it wherever the request's bytes are not read.
	CallbackURL string
	// Of a dead letter that has only the beginning of its record's bytes: how many bytes
	// the value had and what they hash to, and how many its key and headers had.
	ValueBytes  int64
	ValueSHA256 string
	RestBytes   int64
	// CallBy is until when a lane may call the message on its decision. Only a record on
	// a dispatch topic has it: each decision sets it anew.
	CallBy Millis
	// Stale is 1 for a message that goes back because CallBy is over, and one more for each
	// time that it was over already when its lane first read the record, or when its call was
	// to begin. It goes with a stale message and with the decision that follows; anything
	// else ends it.
	Stale int
	Reply string // weir-reply, until the first decision: who waits for it
}

// Each calls fn for every header that is set, in a fixed order. The values are
// fn's to keep.
func (e *Envelope) Each(fn func(key string, value []byte)) {
	size := 640 // enough for most messages: one piece of memory for all
	if e.Round != nil {
		size = 1152
	}
	all := make([]byte, 0, size)
	write := func(key string, more []byte) {
		if len(more) > len(all) {
			fn(key, more[len(all):len(more):len(more)])
			all = more
		}
	}
	text := func(key, v string) { write(key, append(all, v...)) }
	number := func(key string, v int64) {
		if v != 0 {
			write(key, strconv.AppendInt(all, v, 10))
		}
	}
	moment := func(key string, v Millis) {
		if v != 0 {
			write(key, appendInstant(all, v))
		}
	}
	text(HeaderID, e.ID)
	text(HeaderKey, e.Key)
	text(HeaderTenant, e.Tenant)
	if e.Origin.Topic != "" {
		write(HeaderOrigin, e.Origin.append(all))
	}
	text(HeaderReason, e.Reason)
	number(HeaderAttempt, int64(e.Attempt))
	text(HeaderProvider, e.Provider)
	text(HeaderPriority, string(e.Priority))
	number(HeaderRevision, e.Revision)
	moment(HeaderDecidedAt, e.DecidedAt)
	moment(HeaderAcceptedAt, e.AcceptedAt)
	moment(HeaderExpiresAt, e.ExpiresAt)
	moment(HeaderDueAt, e.DueAt)
	if len(e.Place) > 0 {
		write(HeaderPlace, AppendCharges(all, e.Place))
	}
	if e.Round != nil {
		write(HeaderRound, AppendRound(all, e.Round))
	}
	if len(e.Restore) > 0 {
		write(HeaderRestore, AppendCharges(all, e.Restore))
	}
	text(HeaderTaint, string(e.Taint))
	text(HeaderReturn, e.Return)
	moment(HeaderTurn, e.Turn)
	text(HeaderError, e.Error)
	text(HeaderLastError, e.LastError)
	if len(e.Tried) > 0 {
		write(HeaderTried, appendTried(all, e.Tried))
	}
	text(HeaderRedriveOf, e.RedriveOf)
	moment(HeaderTimestamp, e.Timestamp)
	text(HeaderRequestKey, e.RequestKey)
	text(HeaderCallbackURL, e.CallbackURL)
	number(HeaderValueBytes, e.ValueBytes)
	text(HeaderValueSHA256, e.ValueSHA256)
	number(HeaderRestBytes, e.RestBytes)
	number(HeaderCallBy, int64(e.CallBy))
	number(HeaderStale, int64(e.Stale))
	text(HeaderReply, e.Reply)
}

// Set puts one header into e, whose text it keeps. Keys that are no part of an
// envelope are ignored.
func (e *Envelope) Set(key, value string) error {
	var err error
	switch key {
	case HeaderID:
		e.ID = value
	case HeaderKey:
		e.Key = value
	case HeaderTenant:
		e.Tenant = value
	case HeaderOrigin:
		e.Origin, err = ParseSource(value)
	case HeaderReason:
		e.Reason = value
	case HeaderAttempt:
		e.Attempt, err = strconv.Atoi(value)
	case HeaderProvider:
		e.Provider = value
	case HeaderPriority:
		e.Priority = Priority(value)
	case HeaderRevision:
		e.Revision, err = strconv.ParseInt(value, 10, 64)
	case HeaderDecidedAt:
		e.DecidedAt, err = ParseMillis(value)
	case HeaderAcceptedAt:
		e.AcceptedAt, err = ParseMillis(value)
	case HeaderExpiresAt:
		e.ExpiresAt, err = ParseMillis(value)
	case HeaderDueAt:
		e.DueAt, err = ParseMillis(value)
	case HeaderPlace:
		e.Place, err = readCharges(value)
	case HeaderRound:
		var own bool
		if e.Round, own = ownRound(value); !own {
			e.Round, err = DecodeRound([]byte(value))
		}
	case HeaderRestore:
		e.Restore, err = readCharges(value)
	case HeaderTaint:
		e.Taint = Taint(value)
	case HeaderReturn:
		e.Return = value
	case HeaderTurn:
		e.Turn, err = ParseMillis(value)
	case HeaderError:
		e.Error = value
	case HeaderLastError:
		e.LastError = value
	case HeaderTried:
		e.Tried = ParseTried(value)
	case HeaderRedriveOf:
		e.RedriveOf = value
	case HeaderTimestamp:
		e.Timestamp, err = ParseMillis(value)
	case HeaderRequestKey:
		e.RequestKey = value
	case HeaderCallbackURL:
		e.CallbackURL = value
	case HeaderValueBytes:
		e.ValueBytes, err = strconv.ParseInt(value, 10, 64)
	case HeaderValueSHA256:
		e.ValueSHA256 = value
	case HeaderRestBytes:
		e.RestBytes, err = strconv.ParseInt(value, 10, 64)
	case HeaderCallBy:
		var ms int64
		ms, err = strconv.ParseInt(value, 10, 64)
		e.CallBy = Millis(ms)
	case HeaderStale:
		e.Stale, err = strconv.Atoi(value)
	case HeaderReply:
		e.Reply = value
	}
	if err != nil {
		return fmt.Errorf("header %s: %w", key, err)
	}
	return nil
}

func readCharges(value string) ([]Charge, error) {
	if charges, own := ownCharges(value); own {
		return charges, nil
	}
	return DecodeCharges([]byte(value))
}

// Redrives reports whether e, with Reason ReadmitRedrive, asks partition num of
// n to send a message again. Weir's operators write such records, not its
// stages, so what does not hold together is refused rather than believed: the id
// is derived from the old one and from where its bytes stand (Origin), nothing
// is held, and the record stands in its recipient's partition.
func (e *Envelope) Redrives(num, n int32) bool {
	return e.Reason == ReadmitRedrive && e.Key != "" && e.RedriveOf != "" &&
		slices.Contains(e.RedriveIDs(), e.ID) && PartitionOf(e.Key, n) == num &&
		e.Attempt == 0 && len(e.Place) == 0 && e.Taint == TaintNone
}

// maxAttempts is more than any message makes: a class has at most MaxRetries.
const maxAttempts = 1 << 20

// maxIDBytes is more than any id has: they are UUIDs.
const maxIDBytes = 128

// Dispatched returns why e is not that of a message that admission dispatched;
// nil when it may be. Admission names every message, its recipient, where its
// request stands, and when it decided.
func (e *Envelope) Dispatched() error {
	switch {
	case e.ID == "":
		return errors.New("it has no " + HeaderID)
	case e.Key == "":
		return errors.New("it has no " + HeaderKey)
	case len(e.ID) > maxIDBytes:
		return fmt.Errorf("header %s has %d bytes", HeaderID, len(e.ID))
	case e.Origin.Topic == "":
		return errors.New("it has no " + HeaderOrigin)
	case e.DecidedAt <= 0:
		return errors.New("it has no " + HeaderDecidedAt)
	case e.Attempt < 0 || e.Attempt > maxAttempts:
		return fmt.Errorf("header %s: %d attempts", HeaderAttempt, e.Attempt)
	}
	return nil
}

// RedriveIDs returns the ids that the message may have which e, with Reason
// ReadmitRedrive, asks for: the one that is derived now, and the one that an
// earlier version derives. Both are the same message.
func (e *Envelope) RedriveIDs() []string {
	id := RedriveID(e.RedriveOf, e.Origin)
	return []string{id, LegacyID(id, e.Key)}
}

// OtherTenant reports whether a request is not that of the tenant as whose e was
// given up on. It was refused for that, and is not to be sent as anyone's.
func (e *Envelope) OtherTenant(q *Request) bool {
	return e.Tenant != "" && cmp.Or(q.Tenant, DefaultTenant) != e.Tenant
}

// Inquires reports whether e, with Reason ReadmitQuota, is a question for what is
// left. Ingest writes such records, not Weir's stages: one that says that it is a
// message, or holds something, is refused.
func (e *Envelope) Inquires() bool {
	return e.Reason == ReadmitQuota && e.ID == "" && e.Key == "" && e.Round == nil && len(e.Place)+len(e.Restore) == 0
}

// Cut reports whether a dead letter has only the beginning of its record's bytes.
func (e *Envelope) Cut() bool { return e.ValueSHA256 != "" }

// String returns topic/partition/offset.
func (s Source) String() string { return string(s.append(nil)) }

func (s Source) append(b []byte) []byte {
	b = append(append(b, s.Topic...), '/')
	b = append(strconv.AppendInt(b, int64(s.Partition), 10), '/')
	return strconv.AppendInt(b, s.Offset, 10)
}

// ParseSource reads topic/partition/offset. A topic's name holds no slash.
func ParseSource(text string) (Source, error) {
	topic, rest, ok := strings.Cut(text, "/")
	part, off, ok2 := strings.Cut(rest, "/")
	p, err := strconv.ParseInt(part, 10, 32)
	o, err2 := strconv.ParseInt(off, 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil || topic == "" {
		return Source{}, fmt.Errorf("origin %q is not topic/partition/offset", text)
	}
	return Source{Topic: topic, Partition: int32(p), Offset: o}, nil
}
