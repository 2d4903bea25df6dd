package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The reader asks for one partition at a time and does not use the client's own
// consumer: that one says where a record lay but not how far it has read, keeps
// records of a partition that was taken from it, and hands over on one goroutine.

// job is one range being read.
type job struct {
	Range
	at     int64 // next offset to read
	until  int64
	passed func(n int64) // called with how many offsets were read; may be nil

	topicID [16]byte
	leader  int32 // -1: not known
	epoch   int32
}

const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 50 * time.Millisecond
)

// read reads a job to its end. Whatever a retry may mend is tried again until
// nothing new has come for cfg.Stall.
func (r *Reader) read(ctx context.Context, j *job, turns chan struct{}, fn func(*kgo.Record) error) error {
	progress := time.Now()
	pause := shortestPause
	for j.at < j.until {
		before := j.at
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := r.fetch(ctx, j, fn)
		<-turns
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case j.at > before:
			progress, pause = time.Now(), shortestPause
			if j.passed != nil {
				j.passed(min(j.at, j.until) - before)
			}
			if err == nil {
				continue
			}
		case time.Since(progress) >= r.cfg.Stall:
			return errors.Join(fmt.Errorf("%s/%d %w for %v at offset %d, before its end at %d: is a transaction left open over it?", j.Topic, j.Partition.Partition, ErrStalled, r.cfg.Stall, j.at, j.until), err)
		}
		if err != nil && !passing(err) {
			return err
		}
		if err != nil {
			j.leader = -1
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// fnError is an error of the caller's function.
type fnError struct{ err error }

func (e *fnError) Error() string { return e.err.Error() }
func (e *fnError) Unwrap() error { return e.err }

// passing tells what another try may mend: all that is not the caller's, and
// not the broker's word that the position or the topic is wrong.
func passing(err error) bool {
	if _, own := errors.AsType[*fnError](err); own {
		return false
	}
	if _, gone := errors.AsType[*GoneError](err); gone {
		return false
	}
	if _, broker := errors.AsType[*kerr.Error](err); broker {
		return kerr.IsRetriable(err)
	}
	return !errors.Is(err, kgo.ErrClientClosed)
}

// fetch brings what one request brings and hands it over.
func (r *Reader) fetch(ctx context.Context, j *job, fn func(*kgo.Record) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Stall, ErrStalled)
	defer cancel()
	if j.leader < 0 {
		if err := r.locate(ctx, j); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrFetchRequest()
	// Not to wait at the broker: it answers a connection's requests in turn, and
	// the next one may be for a partition that has something.
	req.MaxWaitMillis = 0
	req.MinBytes = 1
	req.MaxBytes = max(r.cfg.FetchBytes, 1<<20)
	req.IsolationLevel = 1 // read committed
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = j.Topic, j.topicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition = j.Partition.Partition
	rp.FetchOffset = j.at
	rp.CurrentLeaderEpoch = j.epoch
	rp.PartitionMaxBytes = r.cfg.FetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := r.cl.Broker(int(j.leader)).Request(ctx, req)
	if err != nil {
		return fmt.Errorf("fetch %s/%d: %w", j.Topic, j.Partition.Partition, err)
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch %s/%d: %w", j.Topic, j.Partition.Partition, err)
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return nil
	}
	got := &resp.Topics[0].Partitions[0]
	if got.Partition != j.Partition.Partition {
		return fmt.Errorf("fetch %s/%d: the broker answered for partition %d", j.Topic, j.Partition.Partition, got.Partition)
	}
	if got.ErrorCode == kerr.OffsetOutOfRange.Code {
		return &GoneError{Partition: j.Partition, From: j.at, Start: got.LogStartOffset, End: got.HighWatermark}
	}
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: j.at, IsolationLevel: kgo.ReadCommitted(), Topic: j.Topic, Partition: j.Partition.Partition,
	}, got, bounded, nil)
	for _, rec := range fetched.Records {
		if rec.Offset >= j.until {
			break
		}
		if err := fn(rec); err != nil {
			return &fnError{err}
		}
	}
	j.at = min(max(j.at, next), j.until)
	if at, ok := Oversized(fetched.Err); ok && r.cfg.Oversized != nil {
		if err := r.cfg.Oversized(batchOf(at, got.RecordBatches)); err != nil {
			return &fnError{err}
		}
		j.at = min(max(j.at, at.NextOffset), j.until)
		return nil
	} else if ok {
		return &fnError{at} // a retry does not mend it
	}
	if fetched.Err != nil {
		return fmt.Errorf("fetch %s/%d at %d: %w", j.Topic, j.Partition.Partition, j.at, fetched.Err)
	}
	return nil
}

// locate asks who leads the job's partition.
func (r *Reader) locate(ctx context.Context, j *job) error {
	meta, err := r.adm.Metadata(ctx, j.Topic)
	if err != nil {
		return fmt.Errorf("find the leader of %s/%d: %w", j.Topic, j.Partition.Partition, err)
	}
	if err := j.locate(meta); err != nil {
		return fmt.Errorf("find the leader of %s/%d: %w", j.Topic, j.Partition.Partition, err)
	}
	return nil
}

func (j *job) locate(meta kadm.Metadata) error {
	j.leader = -1
	t := meta.Topics[j.Topic]
	if t.Err != nil {
		return t.Err
	}
	if unknown := [16]byte{}; j.topicID != unknown && t.ID != unknown && j.topicID != t.ID {
		return &GoneError{Partition: j.Partition, From: j.at, Anew: true}
	}
	p, ok := t.Partitions[j.Partition.Partition]
	switch {
	case !ok:
		return kerr.UnknownTopicOrPartition
	case p.Err != nil:
		return p.Err
	case p.Leader < 0:
		return kerr.LeaderNotAvailable
	}
	j.topicID, j.leader, j.epoch = t.ID, p.Leader, p.LeaderEpoch
	return nil
}
