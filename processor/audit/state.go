package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// The state of a partition, as weir.ledger and weir.seen have it, is the one that its
// decisions leave. Two comparisons show that:
//
//   - The hash. Each transaction ends with the ledger's meta record, which has the number and
//     the hash of the last records of all keys. What is read must have the same.
//   - The contents (contents.go). What the audit has counted up to the decision that the meta
//     record names must be what the records say.
//
// Both are of one cut: below it every transaction is over. Compaction goes on while the audit
// reads: what was written again beyond the cut may be missing below it. So the audit reads on,
// does not compare the contents of keys that were written again, and takes the hash at the
// cut or at the end. Nothing here changes what the partition has counted, so it can be done
// again at a later cut.

// Parts of a state that have a hash of their own, and as the ledger's meta record names them.
const (
	partPlaces = iota
	partOptOuts
	partWaiting
	partHeld
	partCount
)

var partNames = [partCount]string{"of limits", "of opt-outs", "of waiting messages", "of decisions without sending"}

// hashed is the number and the hash of some records, each the last of its key. The hash is the sum of
// mix(key, check) over them, with the check of a record its CRC-32C.
type hashed struct {
	Records int64  `json:"n"`
	Hash    uint64 `json:"h,string"`
}

func (h *hashed) replace(key sum, was, is uint32) {
	if was != 0 {
		h.Records--
		h.Hash -= mix(key, uint64(was))
	}
	if is != 0 {
		h.Records++
		h.Hash += mix(key, uint64(is))
	}
}

// mix is the hash of a key and what is under it: two rounds of multiplying to 128 bits, and
// both halves of the last together.
func mix(key sum, what uint64) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	hi, lo := bits.Mul64(key[0]^what*a, key[1]^b)
	hi, lo = bits.Mul64(hi^lo^a, what^key[0]^b)
	return hi ^ lo
}

// stateSums is what a meta record says of the state.
type stateSums struct {
	Version int        `json:"v"`
	Places  hashed     `json:"places"`
	OptOuts hashed     `json:"optouts"`
	Waiting hashed     `json:"waiting"`
	Held    hashed     `json:"held"`
	Known   []spanHash `json:"known"`
}

func (s *stateSums) parts() [partCount]hashed {
	return [partCount]hashed{partPlaces: s.Places, partOptOuts: s.OptOuts, partWaiting: s.Waiting, partHeld: s.Held}
}

const sumsVersion = 1

// spanHash is the hash of the records of weir.seen of three hours.
type spanHash struct {
	Span int64 `json:"span"`
	hashed
}

const (
	anHour    = schemas.Millis(time.Hour / time.Millisecond)
	spanHours = 3
)

// firstSpan is the earliest of which every hour is remembered at t: ids and keys are known
// for a day.
func firstSpan(t schemas.Millis) int64 {
	first := int64((t - unique) / anHour)
	return (first + spanHours - 1) / spanHours
}

// stateKey is a key of the ledger. Of what limits have, the last 4 bytes are in the entry.
type stateKey struct {
	hi     uint64
	mid    uint32
	number uint32 // of a segment, and one more; 0 is none
	low    uint32
	kind   byte // 0: of limits
}

// whole is the key without a segment's number.
func (k stateKey) whole() stateKey {
	k.number = 0
	return k
}

// entry is the last record of a key.
type entry struct {
	digest uint64 // of its contents, as far as they are compared
	offset int64
	check  uint32
	low    uint32 // of the key of what limits have
	limit  uint32 // its name's hash
	before bool   // it has places of before the log
}

// keyOf reads a key of the ledger; false for the meta record's, and for what is not Weir's.
func keyOf(key []byte) (k stateKey, low uint32, part int, ok bool) {
	at := 0
	switch {
	case len(key) == 16:
	case len(key) == 21 && key[0] == 'p':
		k.number, at = binary.BigEndian.Uint32(key[17:])+1, 1
	case len(key) == 17 && key[0] == 's':
		k.kind, part, at = key[0], partOptOuts, 1
	case len(key) == 17 && key[0] == kindWaiting:
		k.kind, part, at = key[0], partWaiting, 1
	case len(key) == 17 && key[0] == kindHeld:
		k.kind, part, at = key[0], partHeld, 1
	default:
		return k, 0, 0, false
	}
	k.hi, k.mid, low = binary.BigEndian.Uint64(key[at:]), binary.BigEndian.Uint32(key[at+8:]), binary.BigEndian.Uint32(key[at+12:])
	if k.kind != 0 {
		k.low = low
	}
	return k, low, part, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkOf is the check of a record: 0 of a tombstone. What limits have ends with its own.
func checkOf(part int, key, value []byte) uint32 {
	switch {
	case len(value) == 0:
		return 0
	case part != partPlaces:
		return max(crc32.Update(crc32.Checksum(key[1:], castagnoli), castagnoli, value), 1)
	case len(value) < 4:
		return 1
	}
	return max(binary.LittleEndian.Uint32(value[len(value)-4:]), 1)
}

// state is what was read of a partition's ledger.
type state struct {
	*view
	entries map[stateKey]entry
	later   map[stateKey]uint32 // checks of what was written again beyond the cut; nil below it
	hashes  [partCount]hashed
	meta    []byte // the last meta record
	metaAt  int64
	outside map[stateKey]int64 // records in no transaction, some
	inside  bool               // some are in one
	torn    map[stateKey]error
}

func newState(v *view) *state {
	return &state{view: v, entries: make(map[stateKey]entry), outside: make(map[stateKey]int64), torn: make(map[stateKey]error)}
}

// size is what it takes, in bytes.
func (s *state) size() int64 { return inMap(len(s.entries), 24+32) + inMap(len(s.later), 28) }

// take takes one record of the ledger.
func (s *state) take(r *kgo.Record) {
	if string(r.Key) == "meta" {
		s.meta, s.metaAt = r.Value, r.Offset
		return
	}
	k, low, part, ok := keyOf(r.Key)
	if !ok {
		return // it replaced nothing
	}
	is := checkOf(part, r.Key, r.Value)
	was, again := s.later[k]
	if !again {
		was = s.entries[k].check
	}
	s.hashes[part].replace(sum{k.hi, uint64(k.mid)<<32 | uint64(low)}, was, is)
	if r.Attrs.IsTransactional() {
		s.inside = true
		delete(s.outside, k)
	} else if len(s.outside) < 1000 {
		s.outside[k] = r.Offset
	}
	switch {
	case s.later != nil:
		s.later[k] = is
	case is == 0:
		delete(s.entries, k)
		delete(s.torn, k)
	default:
		e := entry{offset: r.Offset, check: is, low: low}
		delete(s.torn, k)
		if err := s.digest(&e, k, r); err != nil {
			s.torn[k] = err
		}
		s.entries[k] = e
	}
}

// known is what was read of a partition's weir.seen: ids and keys by the hour in which they came.
type known struct {
	all  map[knownKey]knownEntry
	last int64 // offset
}

type knownKey struct {
	name sum
	hour int64
}

type knownEntry struct {
	t    schemas.Millis
	id   uint64 // of the message's id
	hash uint64
}

func (s *known) size() int64 { return inMap(len(s.all), 24+24) }

// take takes one record of weir.seen: its version, key, message id, hash of the content and
// time. What is none is left out, as admission leaves it out.
func (s *known) take(r *kgo.Record) {
	const length = 1 + 16 + 16 + 16 + 8
	s.last = r.Offset
	if len(r.Value) != length || r.Value[0] != 1 {
		return
	}
	word := func(at int) sum {
		return sum{binary.BigEndian.Uint64(r.Value[at:]), binary.BigEndian.Uint64(r.Value[at+8:])}
	}
	t := schemas.Millis(binary.BigEndian.Uint64(r.Value[49:]))
	k := knownKey{word(1), int64(t / anHour)}
	s.all[k] = knownEntry{t: t, id: mix(word(17), 0), hash: mix(word(33), mix(word(17), mix(k.name, uint64(k.hour))))}
}

// spans adds up what came until t.
func (s *known) spans(t schemas.Millis) map[int64]hashed {
	all := make(map[int64]hashed)
	for k, e := range s.all {
		if e.t <= t {
			h := all[k.hour/spanHours]
			h.Records, h.Hash = h.Records+1, h.Hash+e.hash
			all[k.hour/spanHours] = h
		}
	}
	return all
}

// difference says in words how what is there differs from what should be, if it does.
func difference(should, is hashed) string {
	switch d := is.Records - should.Records; {
	case d < 0:
		return fmt.Sprintf("%d of %d records are missing", -d, should.Records)
	case d > 0:
		return fmt.Sprintf("%d records too many beside %d", d, should.Records)
	case is.Hash != should.Hash:
		return fmt.Sprintf("some of %d records differ", should.Records)
	}
	return ""
}

// differs compares what was read with what the last meta record says. Kafka deletes from
// weir.seen what is older than a day and an hour: only what is younger than a day is compared.
func (s *state) differs(m *ledgerMeta, ids *known, now schemas.Millis) (ledger, seen string) {
	var parts []string
	should := m.Sums.parts()
	for i, h := range s.hashes {
		if d := difference(should[i], h); d != "" {
			parts = append(parts, d+" "+partNames[i])
		}
	}
	ledger, parts = strings.Join(parts, ", "), nil
	is := ids.spans(m.T)
	said := make(map[int64]hashed)
	for _, k := range m.Sums.Known {
		said[k.Span] = k.hashed
	}
	spans := maps.Clone(said)
	for span, h := range is {
		if span >= firstSpan(m.T) {
			spans[span] = h
		}
	}
	for _, span := range slices.Sorted(maps.Keys(spans)) {
		start := schemas.Millis(span*spanHours) * anHour
		if d := difference(said[span], is[span]); d != "" && start >= now-unique {
			parts = append(parts, fmt.Sprintf("%s of the %d hours from %s", d, spanHours, start.Time().UTC().Format("2006-01-02 15:04Z")))
		}
	}
	return ledger, strings.Join(parts, ", ")
}

// outsiders names some keys under which somebody wrote in no transaction. Admission writes in transactions.
func (s *state) outsiders() string {
	if !s.inside || len(s.outside) == 0 {
		return ""
	}
	keys := slices.SortedFunc(maps.Keys(s.outside), func(a, b stateKey) int { return cmp.Compare(s.outside[a], s.outside[b]) })
	var named []string
	for _, k := range keys[:min(len(keys), 3)] {
		named = append(named, fmt.Sprintf("offset %d", s.outside[k]))
	}
	return fmt.Sprintf(" (%d were written in no transaction, and not by admission: %s)", len(keys), strings.Join(named, ", "))
}

// compareState compares a partition's state with its log. reached: the log was read to the
// decision of the cut's meta record, and no further.
func (a *auditing) compareState(ctx context.Context, p *partition, reached bool) error {
	if p.metas == nil {
		return nil
	}
	m, there := p.metas.before[p.num]
	if !there {
		return nil
	}
	own := &share{of: a.budget}
	defer own.close()
	err := a.compareAt(ctx, p, &m, reached, own)
	if _, full := errors.AsType[*errMemory](err); full {
		p.found.cannotTell("partitions whose ledger does not fit into memory beside what is counted: whether it is what the decisions leave; give more", 1)
		return nil
	}
	return err
}

func (a *auditing) compareAt(ctx context.Context, p *partition, m *ledgerMeta, reached bool, own *share) error {
	ledger, seen := a.Names.Ledger(), a.Names.Seen()
	s, ids := newState(newView(p, m.T)), &known{all: make(map[knownKey]knownEntry)}
	read := func(topic string, from, until int64, take func(*kgo.Record)) error {
		log, closeLog, err := a.reader.openTo(ctx, topic, p.num, from, until)
		if err != nil {
			return err
		}
		defer closeLog()
		for {
			r, err := log()
			if err != nil || r == nil {
				return err
			}
			take(r)
			if err := own.tick(func() string { return fmt.Sprintf("%s/%d", topic, p.num) }, func() int64 { return s.size() + ids.size() }); err != nil {
				return err
			}
		}
	}
	ends := stateEnds{p.metas.ends.ledger[p.num], p.metas.ends.seen[p.num]}
	start := p.metas.starts
	if err := errors.Join(read(ledger, start.ledger[p.num], ends.ledger, s.take), read(seen, start.seen[p.num], ends.seen, ids.take)); err != nil {
		return err
	}
	now := max(p.clocks.brokers, m.T)
	inLedger, inSeen := s.differs(m, ids, now)
	what, at := s.outsiders(), *m
	s.later = make(map[stateKey]uint32)
	for range 3 {
		next, err := a.stateEndsNow(ctx)
		if err != nil {
			return err
		}
		was := ends
		ends = stateEnds{max(ends.ledger, next.ledger[p.num]), max(ends.seen, next.seen[p.num])}
		if err := errors.Join(read(ledger, was.ledger, ends.ledger, s.take), read(seen, was.seen, ends.seen, ids.take)); err != nil {
			return err
		}
		if inLedger+inSeen == "" || ends == was {
			break
		}
		at = ledgerMeta{}
		if err := json.Unmarshal(s.meta, &at); err != nil {
			break
		}
		at.offset = s.metaAt
		inLedger, inSeen = s.differs(&at, ids, now)
		what = s.outsiders()
	}
	if m.Sums.Version != sumsVersion || at.Sums.Version != sumsVersion {
		p.found.cannotTell("partitions whose ledger does not say what it has, since an earlier version or weir ledger repair --forget wrote last: whether something vanished from it", 1)
		inLedger, inSeen = "", ""
	}
	fault := func(topic string, offset int64, what string) {
		p.found.violation(Violation{Kind: KindState, Topic: topic, Partition: p.num, Offset: offset, Seq: at.Seq, T: at.T,
			Text: "it is not what the last transaction left: " + what})
	}
	if inLedger != "" {
		fault(ledger, at.offset, inLedger+what)
	}
	if inSeen != "" {
		fault(seen, ids.last, inSeen)
	}
	for k, err := range s.torn {
		p.found.violation(Violation{Kind: KindState, Topic: ledger, Partition: p.num, Offset: s.entries[k].offset, Text: err.Error()})
	}
	p.contents(s, ids, m, reached, func(offset int64) (rec scopeRecord) {
		_ = read(ledger, offset, offset+1, func(r *kgo.Record) { rec, _ = readScope(r.Key, r.Value) })
		return rec
	})
	return nil
}

// stateEnds are offsets of a partition's ledger and known keys, or of all partitions'.
type stateEnds struct{ ledger, seen int64 }

type stateOffsets struct{ ledger, seen map[int32]int64 }

// stateEndsNow takes the last stable offsets: the ledger's first, so that what its last
// transaction wrote to weir.seen lies below that one's.
func (a *auditing) stateEndsNow(ctx context.Context) (ends stateOffsets, err error) {
	r := reader{}
	if err := r.stable(ctx, a.adm, a.Names.Ledger()); err != nil {
		return ends, err
	}
	if err := r.stable(ctx, a.adm, a.Names.Seen()); err != nil {
		return ends, err
	}
	return stateOffsets{r.until[a.Names.Ledger()], r.until[a.Names.Seen()]}, nil
}

// reached compares the state where the log has come to the decision of the ledger's meta
// record, or to its end without it.
func (p *partition) reached(end bool) error {
	compare := p.atCut
	if compare == nil || p.metas == nil {
		return nil
	}
	m, there := p.metas.before[p.num]
	if there && (!end && p.seq < m.Seq) {
		return nil
	}
	p.atCut = nil
	return compare(p.started && p.seq == m.Seq)
}

// stateCut takes where the ledger and weir.seen begin, and where they end for the comparison.
// Of the ledger that was done before.
func (a *auditing) stateCut(ctx context.Context) (starts, ends stateOffsets, err error) {
	r, ledger, seen := reader{}, a.Names.Ledger(), a.Names.Seen()
	err = r.stable(ctx, a.adm, seen)
	return stateOffsets{maps.Clone(a.reader.start[ledger]), r.start[seen]}, stateOffsets{maps.Clone(a.reader.until[ledger]), r.until[seen]}, err
}
