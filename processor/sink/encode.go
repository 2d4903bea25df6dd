package sink

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"runtime/debug"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/schemas/clickhouse"
)

// Record is one record of weir.status, as it stands in Kafka.
type Record struct {
	Partition int32
	Offset    int64
	Appended  schemas.Millis // the broker's time
	Value     []byte         // never changed afterwards: a block's rows point into it
}

// How far at may be from the record's append time before the append time stands
// in for it. at chooses the day's partition, which must exist in reason: a
// backlog may be old, but nothing is from the future.
const (
	maxBehind = 400 * 24 * time.Hour
	maxAhead  = 24 * time.Hour
)

// nowhere is onward of a decision that sends its message to no other partition:
// 0 is one.
const nowhere = int32(-1)

// kindPoison is the kind of a row whose record could not be decoded.
const kindPoison = "poison"

// Block is rows as columns, in the order of its log's. The rows depend
// on the records, the key and the encoder's version alone. Not for concurrent use.
type Block struct {
	log       clickhouse.Log
	anyPrice  bool // what does not fit becomes 0 in ClickHouse, or loses digits
	countries countries
	reader    schemas.EventReader
	hash      hash.Hash
	sum       [sha256.Size]byte

	rows   int
	panics []panicked
	poison int // of them

	kind, messageID, tenant, channel, class, template, to, country, status []string
	recipientHash                                                          []uint64
	at                                                                     []int64
	reason, provider, providerMessageID, errorCode, errorText              []string
	attempt, segments                                                      []uint16
	limit, window                                                          []string
	retryAt, acceptedAt                                                    []int64
	price, currency, duplicateOf, redriveOf                                []string
	observed                                                               []bool
	sourceTopic                                                            []string
	sourcePartition                                                        []int32
	sourceOffset                                                           []int64
	verdict                                                                []string
	decisionPartition                                                      []int32
	decisionSeq, decisionT, revision                                       []int64
	inputTopic                                                             []string
	inputPartition                                                         []int32
	inputOffset                                                            []int64
	charges, carried                                                       places
	returned, missing, passed, restored, released, reinstated              []string
	onward                                                                 []int32
	evidence, marker                                                       []string
	bytes                                                                  []uint32
	statusPartition                                                        []int32
	statusOffset                                                           []int64
}

// places are charges as the columns of a Nested.
type places struct {
	limit, scope [][]string
	t            [][]time.Time
	cost         [][]int64
}

// NewBlock returns an empty block. key keys recipient_hash: whoever lacks it
// cannot test a guess.
func NewBlock(key []byte) *Block { return newBlock(key, EncoderVersion) }

// newBlock returns an empty block of an encoder's version.
func newBlock(key []byte, version int) *Block {
	return &Block{log: clickhouse.Logs[min(version, len(clickhouse.Logs))-1], anyPrice: version < 3, hash: hmac.New(sha256.New, key)}
}

// strings, longs and ints are the columns of these types, but for those in places.
func (b *Block) strings() []*[]string {
	return []*[]string{
		&b.kind, &b.messageID, &b.tenant, &b.channel, &b.class, &b.template, &b.to, &b.country, &b.status,
		&b.reason, &b.provider, &b.providerMessageID, &b.errorCode, &b.errorText, &b.limit, &b.window,
		&b.price, &b.currency, &b.duplicateOf, &b.redriveOf, &b.sourceTopic, &b.verdict, &b.inputTopic,
		&b.returned, &b.missing, &b.passed, &b.restored, &b.released, &b.reinstated, &b.evidence, &b.marker,
	}
}

func (b *Block) longs() []*[]int64 {
	return []*[]int64{
		&b.at, &b.retryAt, &b.acceptedAt, &b.sourceOffset, &b.decisionSeq, &b.decisionT, &b.revision, &b.inputOffset, &b.statusOffset,
	}
}

func (b *Block) ints() []*[]int32 {
	return []*[]int32{&b.sourcePartition, &b.decisionPartition, &b.inputPartition, &b.onward, &b.statusPartition}
}

func grow[T any](n int, columns ...*[]T) {
	for _, c := range columns {
		*c = slices.Grow(*c, n)
	}
}

func cut[T any](n int, columns ...*[]T) {
	for _, c := range columns {
		*c = (*c)[:min(n, len(*c))]
	}
}

// Reserve makes room for n rows: growing 60 columns by doubling takes as long as
// decoding.
func (b *Block) Reserve(n int) {
	grow(n, b.strings()...)
	grow(n, b.longs()...)
	grow(n, b.ints()...)
	grow(n, &b.recipientHash)
	grow(n, &b.attempt, &b.segments)
	grow(n, &b.observed)
	grow(n, &b.bytes)
	for _, p := range []*places{&b.charges, &b.carried} {
		grow(n, &p.limit, &p.scope)
		grow(n, &p.t)
		grow(n, &p.cost)
	}
}

// undo takes away what was written of a row that is not whole.
func (b *Block) undo() {
	cut(b.rows, b.strings()...)
	cut(b.rows, b.longs()...)
	cut(b.rows, b.ints()...)
	cut(b.rows, &b.recipientHash)
	cut(b.rows, &b.attempt, &b.segments)
	cut(b.rows, &b.observed)
	cut(b.rows, &b.bytes)
	for _, p := range []*places{&b.charges, &b.carried} {
		cut(b.rows, &p.limit, &p.scope)
		cut(b.rows, &p.t)
		cut(b.rows, &p.cost)
	}
}

// Rows is the number of rows.
func (b *Block) Rows() int { return b.rows }

// Columns returns the columns in the order of the block's log.
func (b *Block) Columns() []any {
	all := []any{
		b.kind, b.messageID, b.tenant, b.channel, b.class, b.template, b.to, b.recipientHash, b.country, b.status,
		b.at, b.reason, b.attempt, b.provider, b.providerMessageID, b.errorCode, b.errorText, b.limit, b.window,
		b.retryAt, b.acceptedAt, b.segments, b.price, b.currency, b.duplicateOf, b.redriveOf, b.observed,
		b.sourceTopic, b.sourcePartition, b.sourceOffset,
		b.verdict, b.decisionPartition, b.decisionSeq, b.decisionT, b.revision,
		b.inputTopic, b.inputPartition, b.inputOffset,
		b.charges.limit, b.charges.scope, b.charges.t, b.charges.cost,
		b.carried.limit, b.carried.scope, b.carried.t, b.carried.cost,
		b.returned, b.missing, b.passed, b.restored, b.released, b.reinstated, b.onward, b.evidence, b.marker,
		b.bytes, b.statusPartition, b.statusOffset,
	}
	out := all[:0]
	for i, name := range clickhouse.StatusLog.Columns {
		if slices.Contains(b.log.Columns, name) {
			out = append(out, all[i])
		}
	}
	return out
}

// Append adds a record's row. A record that cannot be decoded, or whose price its
// column cannot hold, gives a row of kind poison, with the reason and its size, and
// none of its bytes. So does one on which the program panics.
func (b *Block) Append(r Record) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		b.panics = append(b.panics, panicked{r.Partition, r.Offset, v, debug.Stack()})
		b.undo()
		b.reader = schemas.EventReader{} // it may be half done
		b.append(r, nil, errPanic)
	}()
	e, err := b.decode(r.Value)
	b.append(r, e, err)
}

// errPanic names neither the panic nor the place: the row depends on the record alone.
var errPanic = errors.New("the program panicked on it")

// panicked is a record on which the program panicked.
type panicked struct {
	partition int32
	offset    int64
	value     any
	stack     []byte
}

// append adds the row of an event, or why there is none.
func (b *Block) append(r Record, e *schemas.Event, err error) {
	var kind string
	if err != nil {
		at := value(e).At // a row of another version is known by it
		e, kind = &schemas.Event{Error: err.Error(), At: at}, kindPoison
		b.poison++
	} else {
		kind = string(e.Kind)
	}
	at := e.At
	if at == 0 || at < r.Appended.Add(-maxBehind) || at > r.Appended.Add(maxAhead) {
		at = r.Appended
	}
	b.kind = append(b.kind, kind)
	b.messageID = append(b.messageID, e.MessageID)
	b.tenant = append(b.tenant, e.Tenant)
	b.channel = append(b.channel, e.Channel)
	b.class = append(b.class, e.Class)
	b.template = append(b.template, e.Template)
	b.to = append(b.to, e.To)
	b.recipientHash = append(b.recipientHash, b.hashOf(e.To))
	b.country = append(b.country, b.countries.of(e.To))
	b.status = append(b.status, string(e.Status))
	b.at = append(b.at, int64(at))
	b.reason = append(b.reason, e.Reason)
	b.attempt = append(b.attempt, small(e.Attempt))
	b.provider = append(b.provider, e.Provider)
	b.providerMessageID = append(b.providerMessageID, e.ProviderMessageID)
	b.errorCode = append(b.errorCode, e.ErrorCode)
	b.errorText = append(b.errorText, e.Error)
	b.limit = append(b.limit, e.Limit)
	b.window = append(b.window, e.Window)
	b.retryAt = append(b.retryAt, instant(e.RetryAt))
	b.acceptedAt = append(b.acceptedAt, instant(e.AcceptedAt))
	b.segments = append(b.segments, small(e.Segments))
	b.price = append(b.price, e.Price)
	b.currency = append(b.currency, e.Currency)
	b.duplicateOf = append(b.duplicateOf, e.DuplicateOf)
	b.redriveOf = append(b.redriveOf, e.RedriveOf)
	b.observed = append(b.observed, e.Observed)
	src := value(e.Source)
	b.sourceTopic = append(b.sourceTopic, src.Topic)
	b.sourcePartition = append(b.sourcePartition, src.Partition)
	b.sourceOffset = append(b.sourceOffset, src.Offset)
	b.decision(value(e.Decision))
	b.bytes = append(b.bytes, uint32(min(len(r.Value), math.MaxUint32)))
	b.statusPartition = append(b.statusPartition, r.Partition)
	b.statusOffset = append(b.statusOffset, r.Offset)
	b.rows++
}

func (b *Block) decision(d schemas.Decision) {
	b.verdict = append(b.verdict, string(d.Verdict))
	b.decisionPartition = append(b.decisionPartition, d.Partition)
	b.decisionSeq = append(b.decisionSeq, d.Seq)
	b.decisionT = append(b.decisionT, instant(d.T))
	b.revision = append(b.revision, d.Revision)
	in := value(d.Input)
	b.inputTopic = append(b.inputTopic, in.Topic)
	b.inputPartition = append(b.inputPartition, in.Partition)
	b.inputOffset = append(b.inputOffset, in.Offset)
	b.charges.append(d.Charges)
	b.carried.append(d.Carried)
	b.returned = append(b.returned, text(d.Returned))
	b.missing = append(b.missing, text(d.Missing))
	b.passed = append(b.passed, text(d.Passed))
	b.restored = append(b.restored, text(d.Restored))
	b.released = append(b.released, text(d.Released))
	b.reinstated = append(b.reinstated, text(d.Reinstated))
	onward := nowhere
	if d.Onward != nil {
		onward = *d.Onward
	}
	b.onward = append(b.onward, onward)
	b.evidence = append(b.evidence, text(d.Evidence))
	marker := ""
	if d.Marker != nil {
		marker = text([]*schemas.Marker{d.Marker})
		marker = marker[1 : len(marker)-1]
	}
	b.marker = append(b.marker, marker)
}

func (p *places) append(charges []schemas.Charge) {
	var (
		limits, scopes []string
		ts             []time.Time
		costs          []int64
	)
	for _, c := range charges {
		limits = append(limits, c.Limit)
		scopes = append(scopes, c.Scope)
		ts = append(ts, time.UnixMilli(instant(c.T)))
		costs = append(costs, c.Cost)
	}
	p.limit = append(p.limit, limits)
	p.scope = append(p.scope, scopes)
	p.t = append(p.t, ts)
	p.cost = append(p.cost, costs)
}

// hashOf is the first 64 bits of HMAC-SHA256(key, recipient), so that rows of
// one recipient join where the recipient itself may not be shown. 0 is none.
func (b *Block) hashOf(to string) uint64 {
	if to == "" {
		return 0
	}
	b.hash.Reset()
	b.hash.Write([]byte(to))
	return binary.BigEndian.Uint64(b.hash.Sum(b.sum[:0]))
}

// decode reads an event, good until the next; with an error too, if its time is
// known. Its errors contain nothing of the value.
func (b *Block) decode(v []byte) (*schemas.Event, error) {
	if len(v) == 0 {
		return nil, errors.New("the record has no value")
	}
	// Not copied: nobody changes a record's value.
	e, err := b.reader.Read(unsafe.String(unsafe.SliceData(v), len(v)))
	switch {
	case err != nil:
		return nil, err
	case e.Kind != schemas.KindStatus && e.Kind != schemas.KindDecision:
		return nil, errors.New("unknown kind")
	case e.Kind == schemas.KindDecision && e.Decision == nil:
		return nil, errors.New("a decision without its decision")
	case e.Kind == schemas.KindDecision && e.Status == "":
		return e, nil
	case !known[e.Status]:
		// Not an enum's value: ClickHouse would refuse the whole block for ever.
		return nil, errors.New("unknown status")
	case e.Kind == schemas.KindStatus && e.Price != "" && !b.anyPrice && !schemas.PriceFits(e.Price):
		return e, errors.New("a price that the table cannot hold: at most 12 digits before the point and six after it")
	}
	return e, nil
}

// known are the statuses that there are.
var known = func() map[schemas.Status]bool {
	m := make(map[schemas.Status]bool)
	for _, s := range schemas.Statuses {
		m[s] = true
	}
	return m
}()

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// text is a list as JSON, and the empty list as nothing.
func text[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	var quick []byte
	switch l := any(list).(type) {
	case []schemas.Charge:
		quick = schemas.AppendCharges(nil, l)
	case []schemas.Evidence:
		quick = schemas.AppendEvidence(nil, l)
	}
	// They differ from encoding/json, whose text stands in the rows, in what
	// that escapes only.
	if len(quick) > 0 && !bytes.ContainsFunc(quick, func(r rune) bool { return r >= utf8.RuneSelf || r == '<' || r == '>' || r == '&' }) {
		return string(quick)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		// Numbers, strings and times always encode.
		panic(fmt.Sprintf("encode part of a decision: %v", err))
	}
	return string(raw)
}

func small(n int) uint16 { return uint16(max(0, min(n, math.MaxUint16))) }

// latest is the end of what DateTime64 holds, nearly: 2261-12-31.
const latest = 9_214_560_000_000

// instant bounds a time to what DateTime64 holds; absent is 0.
func instant(m schemas.Millis) int64 { return max(0, min(int64(m), latest)) }
