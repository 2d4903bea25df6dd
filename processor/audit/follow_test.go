package audit

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An audit that follows ends where a partition has lost the end that it read.
func TestLostEndUnderAFollower(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "weir.status"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	a := &auditing{adm: kadm.NewClient(cl), reader: reader{
		until: map[string]map[int32]int64{"weir.status": {0: 9, 1: 5}},
		done:  map[string]map[int32]int64{"weir.status": {0: 9, 1: 5}},
	}}
	if err := a.sameTopics(t.Context()); err != nil {
		t.Error(err)
	}
	a.reader.until["weir.status"][1] = 4
	if err := a.sameTopics(t.Context()); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "weir.status/1 ends at offset 4, and was read up to 5") {
		t.Error(err)
	}
}
