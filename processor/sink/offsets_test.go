package sink_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/topics"
)

// committed reports whether the group has confirmed all there is: nothing is
// planned, and only control records may follow.
func committed(t *testing.T, seeds []string) bool {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	offsets, err := adm.FetchOffsets(t.Context(), sink.Group(topics.Names{}))
	if err != nil {
		return false
	}
	for id := range int32(parts) {
		at, ok := offsets.Lookup(topics.Names{}.Status(), id)
		if !ok {
			return false
		}
		plan, err := sink.ParseMetadata(id, at.At, at.Metadata)
		if err != nil || plan.To != plan.From {
			return false
		}
	}
	return true
}
