package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// metaKey is the ledger's key of a partition's meta record. Keys of 16 bytes, and
// of 21 that begin with p, are those of package limit; other records have a
// letter for their kind, and 16 bytes after it.
const (
	metaKey         = "meta"
	suppressionKind = 's'
	waitingKind     = 'w'
	heldKind        = 'h'
)

// metaVersion is the encoding of the ledger as a whole. A reader refuses what
// it does not know.
const metaVersion = 1

// meta is what stands for a partition as a whole. It is written in every
// transaction; the group's offsets must equal its positions at restore, or the
// ledger and the input disagree.
type meta struct {
	Version    int            `json:"version"`
	Partitions int32          `json:"partitions"` // N: part of the state, since it decides who owns a recipient
	Seq        int64          `json:"seq"`        // of the last decision
	T          schemas.Millis `json:"t"`          // of the last decision
	Requests   int64          `json:"requests"`   // next offset to read of weir.requests
	Readmit    int64          `json:"readmit"`    // next offset to read of weir.readmit
	Phones     string         `json:"phones"`     // version of the phone library's metadata, of the last decision
	Marker     schemas.Marker `json:"marker"`     // the revision in force and its windows' since
	// Ids of the topics whose offsets Requests and Readmit are; empty where the
	// brokers have none, or before a version that wrote them.
	RequestsID string `json:"requests_id,omitempty"`
	ReadmitID  string `json:"readmit_id,omitempty"`
	Zones      string `json:"zones,omitempty"` // release of the time zone database, of the last decision; empty before a version that wrote it
	// Other time zones and numbering plans that decisions of the log were made with. A
	// version that does not know it leaves it out.
	Others []formerData `json:"others,omitempty"`
	// State of other spellings than keys have. A version that does not know it leaves it out.
	Spellings spellings `json:"spellings,omitzero"`
	// What the state has when this record is the last. A version that does not know it
	// leaves it out, and then nothing is compared.
	Sums sums `json:"sums,omitzero"`
}

func (m *meta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode meta record: %w", err)
	}
	return b, nil
}

// Data names the time zones and numbering plans that a process decides with.
type Data struct {
	Phones string `json:"phones"`
	Zones  string `json:"zones,omitempty"`
}

// ownData is this program's.
var ownData = Data{Phones: recipient.MetadataVersion, Zones: schemas.ZonesVersion}

// formerData is what decisions up to seq were made with, the last of them at seq.
type formerData struct {
	Data
	Seq int64 `json:"seq"`
}

// mostFormerData bounds what the meta record names: releases change the data a few times
// a year.
const mostFormerData = 8

// adoptData makes the numbering plans and time zones of this process those of the state,
// and returns the former ones if they differ. Calendar periods, quiet hours and the keys of
// recipients follow from them. The record keeps the former ones, each with its last
// decision: the log does not say with which a decision was made.
func (m *meta) adoptData(own Data) (former Data, differ bool) {
	former = Data{Phones: m.Phones, Zones: m.Zones}
	m.Phones, m.Zones = own.Phones, own.Zones
	differ = former.Phones != own.Phones || former.Zones != "" && former.Zones != own.Zones
	if differ {
		m.Others = append(slices.DeleteFunc(slices.Clone(m.Others), func(f formerData) bool { return f.Data == former }), formerData{former, m.Seq})
		m.Others = m.Others[max(0, len(m.Others)-mostFormerData):]
	}
	return former, differ
}

func decodeMeta(b []byte) (*meta, error) {
	m := new(meta)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("meta record is torn or foreign: %w", err)
	}
	if m.Version != metaVersion {
		return nil, fmt.Errorf("meta record has version %d, this weir knows %d: run the version that wrote it", m.Version, metaVersion)
	}
	return m, nil
}
