package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// ledgerMeta is the ledger's record of a partition as a whole, as far as the audit reads
// it: it is written with every decision.
type ledgerMeta struct {
	Seq      int64          `json:"seq"` // of the last decision
	T        schemas.Millis `json:"t"`
	Requests int64          `json:"requests"` // next offset to decide
	Readmit  int64          `json:"readmit"`
	Phones   string         `json:"phones"` // version of the phone library's metadata, of the last decision
	Sums     stateSums      `json:"sums"`   // of all records
	Zones    string         `json:"zones"`  // release of the time zone database; empty before a version that wrote it
	Others   []usedData     `json:"others"` // what earlier decisions were made with
	offset   int64          // where it stands
}

// usedData is what decisions up to Seq were made with, the last of them at Seq.
type usedData struct {
	Zones  string `json:"zones"`
	Phones string `json:"phones"`
	Seq    int64  `json:"seq"`
}

func (u *usedData) other() bool { return u.otherZones() || u.otherPhones() }

func (u *usedData) otherZones() bool { return u.Zones != "" && u.Zones != schemas.ZonesVersion }

func (u *usedData) otherPhones() bool {
	return u.Phones != "" && u.Phones != recipient.MetadataVersion
}

// with reports whether the decision in hand may have been made with data of which is
// holds: the log does not say with which each was, only when each data was used last.
func (p *partition) with(is func(*usedData) bool) bool {
	if p.metas == nil {
		return false
	}
	if p.othersOf != p.metas {
		m := p.metas.after[p.num]
		p.othersOf, p.others = p.metas, nil
		for _, u := range append(slices.Clone(m.Others), usedData{m.Zones, m.Phones, math.MaxInt64}) {
			if u.other() {
				p.others = append(p.others, u)
			}
		}
	}
	for i := range p.others {
		if u := &p.others[i]; u.Seq >= p.seq && is(u) {
			return true
		}
	}
	return false
}

// otherZones reports whether the decision in hand may have been made with other time
// zones than this program has, otherPhones with other numbering plans.
func (p *partition) otherZones() bool { return p.with((*usedData).otherZones) }

func (p *partition) otherPhones() bool { return p.with((*usedData).otherPhones) }

// cannotTellZones and cannotTellPhones say of the decision in hand what follows from data
// that this program does not have.
func (p *partition) cannotTellZones(what string) {
	p.cannotTell(what + " that may have been decided with other time zones")
}

func (p *partition) cannotTellPhones(what string) {
	p.cannotTell(what + " that may have been decided with other numbering plans")
}

// ledgerTail is how many offsets of a ledger's end are read for its meta record, which
// comes last in each transaction.
const ledgerTail = 2000

// ledgers finds each partition's meta record below the ends that were taken.
func (a *auditing) ledgers(ctx context.Context) (map[int32]ledgerMeta, error) {
	topic := a.Names.Ledger()
	all := make(map[int32]ledgerMeta)
	for num, until := range a.reader.until[topic] {
		start := max(a.reader.start[topic][num], a.lastMeta[num])
		for _, from := range []int64{max(until-ledgerTail, start), start} {
			log, closeLog, err := a.reader.openFrom(ctx, topic, num, from)
			if err != nil {
				return nil, err
			}
			m, found, err := lastMeta(log)
			closeLog()
			if err != nil {
				return nil, err
			}
			if found {
				all[num], a.lastMeta[num] = m, m.offset
				break
			}
		}
	}
	return all, nil
}

func lastMeta(log source) (m ledgerMeta, found bool, err error) {
	for {
		r, err := log()
		if err != nil || r == nil {
			return m, found, err
		}
		var next ledgerMeta
		if string(r.Key) == "meta" && json.Unmarshal(r.Value, &next) == nil {
			next.offset = r.Offset
			m, found = next, true
		}
	}
}

// agrees judges the log's end by the ledger: what the ledger had before the cut is in the
// log, and what the log has is in the ledger after it.
func (p *partition) agrees() {
	if p.metas == nil {
		return
	}
	before, was := p.metas.before[p.num]
	after, is := p.metas.after[p.num]
	for _, u := range append(after.Others, usedData{after.Zones, after.Phones, after.Seq}) {
		if u.other() && p.started && u.Seq >= p.first {
			p.cannotTell(fmt.Sprintf("partitions decided with time zones %s and numbering plans %s, where this weir has %s and %s: calendar windows, quiet hours, countries and recipients", u.Zones, u.Phones, schemas.ZonesVersion, recipient.MetadataVersion))
		}
	}
	fault := func(m ledgerMeta, format string, args ...any) {
		p.found.violation(Violation{Kind: KindLedger, Topic: p.ledger, Partition: p.num, Offset: m.offset, Seq: p.seq, T: p.t, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case !p.started && p.cut: // retention took all of the log
	case was && before.Seq > p.seq:
		fault(before, "it has decisions up to seq %d at %s, and the log ends with seq %d", before.Seq, before.T, p.seq)
	case p.started && !is:
		p.found.violation(Violation{Kind: KindLedger, Topic: p.statusTopic, Partition: p.num, Offset: p.rec.Offset, Seq: p.seq, T: p.t, Text: "the log has decisions, and the ledger no record of the partition"})
	case p.started && after.Seq < p.seq:
		fault(after, "it has decisions up to seq %d at %s, and the log goes on to seq %d", after.Seq, after.T, p.seq)
	case p.started && after.Seq == p.seq && after.T < p.t:
		fault(after, "it says that its time is %s at seq %d, which was decided at %s", after.T, after.Seq, p.t)
	case p.started && (after.Requests < p.done[p.requests] || after.Readmit < p.done[p.readmit]):
		fault(after, "it says that requests are decided below %d and readmit below %d, and the group has committed %d and %d", after.Requests, after.Readmit, p.done[p.requests], p.done[p.readmit])
	}
}

// metas are the ledger's meta records before the end of weir.status was taken, and after.
type metas struct {
	before, after map[int32]ledgerMeta
	starts, ends  stateOffsets // of the ledger below which before was found, and of weir.seen
}

// others reports whether a decision of a partition, of those from seq on, may have been made
// with other data than this program has.
func (m *metas) others(num int32, seq int64) bool {
	after := m.after[num]
	for _, u := range append(after.Others, usedData{after.Zones, after.Phones, after.Seq}) {
		if u.other() && u.Seq >= seq {
			return true
		}
	}
	return false
}
