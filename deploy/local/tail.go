package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CutTail removes the end of a partition's log on broker i, which must have been killed:
// every batch that begins at offset from or later. It returns how many there were. So a
// disk that loses what was not flushed looks to a broker, and so does an unclean election
// to the clients: on a single broker that starts again, the leader's epoch is a new one and
// the log is shorter. The broker rebuilds the indexes and the producers' state from what is
// left; other partitions, the offsets of groups and the transactions' states stay.
func (k *Kafka) CutTail(i int, topic string, partition int32, from int64) (batches int, err error) {
	select {
	case <-k.Done(i):
	default:
		return 0, fmt.Errorf("cut %s/%d: broker %d runs", topic, partition, i)
	}
	batches, err = cutTail(filepath.Join(k.nodeDir(i), "data", fmt.Sprintf("%s-%d", topic, partition)), from)
	if err != nil {
		return batches, fmt.Errorf("cut %s/%d: %w", topic, partition, err)
	}
	return batches, nil
}

// cutTail does it in a partition's directory. Files are named by the first offset that they
// may have, NNNNNNNNNNNNNNNNNNNN.log; what belongs to a segment begins with the same
// number.
func cutTail(dir string, from int64) (batches int, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var bases []int64
	for _, f := range files {
		if number, ok := strings.CutSuffix(f.Name(), ".log"); ok {
			base, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return 0, err
			}
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	for i, base := range bases {
		n, err := cutSegment(filepath.Join(dir, fmt.Sprintf("%020d.log", base)), from)
		if batches += n; err != nil {
			return batches, err
		}
		if i > 0 && base >= from { // empty now; the first one stays, whatever it has
			if err := os.Remove(filepath.Join(dir, fmt.Sprintf("%020d.log", base))); err != nil {
				return batches, err
			}
		}
	}
	// Indexes are made from the segments, and a snapshot of the producers that is of a later
	// offset than the log has is of no use.
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		at, err := strconv.ParseInt(strings.TrimSuffix(f.Name(), ext), 10, 64)
		if err != nil || ext == ".log" || ext == ".snapshot" && at <= from {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return batches, err
		}
	}
	return batches, nil
}

// cutSegment cuts a file before the first batch that begins at from or later, and counts
// what it cut. A batch has its first offset in 8 bytes and then, in 4, its length after
// these 12; what is torn at the end counts as one.
func cutSegment(file string, from int64) (batches int, err error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var at, cut int64 = 0, -1
	for {
		var head [12]byte
		if _, err := f.ReadAt(head[:], at); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, err
		}
		first, length := int64(binary.BigEndian.Uint64(head[:8])), int64(binary.BigEndian.Uint32(head[8:]))
		if length == 0 {
			break // allocated, and not written
		}
		if first >= from {
			if batches++; cut < 0 {
				cut = at
			}
		}
		at += int64(len(head)) + length
	}
	if cut < 0 {
		return 0, nil
	}
	return batches, f.Truncate(cut)
}
