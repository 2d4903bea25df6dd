package sink

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// EncoderVersion changes whenever the same record would give another row: a
// token must never be sent again with other rows, which ClickHouse would drop
// without a word. A former version's plan is carried out with its rows, and into
// its table.
//
//	1  clickhouse.FormerStatusLog
//	2  clickhouse.StatusLog, with carried, passed, restored, released, reinstated and onward
//	3  the same; a price that does not fit is poison, and no longer 0 or less digits
const EncoderVersion = 3

// encodes reports whether this Weir makes the rows of an encoder's version.
func encodes(version int) bool { return version >= 1 && version <= EncoderVersion }

// maxMetadata is Kafka's offset.metadata.max.bytes. What is longer fails the
// commit for ever.
const maxMetadata = 4096

// Plan is what one offset commit says: everything below From is in ClickHouse,
// and the records with offsets in [From, To) are about to be inserted. To == From
// plans nothing.
type Plan struct {
	Topic     string // the topic's id, so that a topic made anew is not taken for the old one
	Partition int32
	From, To  int64
	Encoder   int            // the EncoderVersion of the rows; 0 is none that can be made any more
	Made      schemas.Millis // when the token was used first, at the earliest
	Expires   schemas.Millis // until then the token is sure to be remembered, and nobody inserts after it
	Try       int64          // 0, or what makes the token another one than that of an expired plan
	Doubt     int64          // rows below it may be in ClickHouse though no plan says so; 0 is none
	First     bool           // nothing below From was ever loaded: what Kafka has there is markers, or aborted
}

// planned reports whether p is more than a confirmation.
func (p Plan) planned() bool { return p.To > p.From }

// Token is the insert_deduplication_token of the plan's block.
func (p Plan) Token() string {
	t := fmt.Sprintf("%s/%d/%d-%d", p.Topic, p.Partition, p.From, p.To)
	if p.Try > 0 {
		t += "/" + strconv.FormatInt(p.Try, 10)
	}
	return t
}

// metadataMark begins every metadata that a sink wrote, with its version.
const (
	metadataMark    = "weir-sink"
	metadataVersion = "1"
)

// Metadata is the plan as an offset commit's metadata. The offset committed with
// it is From.
func (p Plan) Metadata() string {
	m := metadataMark + " " + metadataVersion + " topic=" + p.Topic
	if p.planned() {
		m += fmt.Sprintf(" to=%d encoder=%d made=%d expires=%d try=%d", p.To, p.Encoder, int64(p.Made), int64(p.Expires), p.Try)
	}
	if p.Doubt > p.From {
		m += " doubt=" + strconv.FormatInt(p.Doubt, 10)
	}
	if p.First {
		m += " first=1"
	}
	return m
}

var (
	// ErrForeignMetadata: the offset was committed by something else than a
	// sink. Which records are in ClickHouse is then not known from the group.
	ErrForeignMetadata = errors.New("the group's offset was not committed by a sink")
	// ErrNewerMetadata: a newer Weir runs, or ran, as this group. It is fatal:
	// this one cannot know what is planned.
	ErrNewerMetadata = errors.New("the group's offset was committed by a newer Weir")
)

// ParseMetadata reads what Metadata wrote beside offset.
func ParseMetadata(partition int32, offset int64, metadata string) (Plan, error) {
	p := Plan{Partition: partition, From: offset, To: offset}
	fields := strings.Split(metadata, " ")
	if fields[0] != metadataMark || len(fields) < 2 || offset < 0 {
		return Plan{}, ErrForeignMetadata
	}
	if fields[1] != metadataVersion {
		return Plan{}, fmt.Errorf("%w (metadata version %.20q)", ErrNewerMetadata, fields[1])
	}
	for _, f := range fields[2:] {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return Plan{}, ErrForeignMetadata
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil && name != "topic" {
			return Plan{}, ErrForeignMetadata
		}
		switch name {
		case "topic":
			p.Topic = value
		case "to":
			p.To = n
		case "encoder":
			p.Encoder = int(n)
		case "made":
			p.Made = schemas.Millis(n)
		case "expires":
			p.Expires = schemas.Millis(n)
		case "try":
			p.Try = n
		case "doubt":
			p.Doubt = n
		case "first":
			p.First = n == 1
		}
	}
	if p.To < p.From || p.Try < 0 || p.Doubt < 0 || p.Topic == "" || len(metadata) > maxMetadata {
		return Plan{}, ErrForeignMetadata
	}
	return p, nil
}
