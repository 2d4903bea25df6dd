package topics

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// What Weir does not call has no journal, and what is only decided has no topic
// at all.
func TestTopicsOfWhatIsNotCalled(t *testing.T) {
	pol := &schemas.Policy{Providers: []schemas.Provider{{Name: "mine", Type: schemas.ProviderExternal, Lanes: 3}, {Name: "nobody", Type: schemas.ProviderNone}}}
	queues := 0
	for _, s := range Catalogue(Config{Partitions: 12, Replication: 3}, pol) {
		switch {
		case strings.HasPrefix(s.Name, "weir.dispatch.mine."):
			if queues++; s.Partitions != 3 {
				t.Errorf("%s has %d partitions", s.Name, s.Partitions)
			}
		case strings.Contains(s.Name, "mine"), strings.Contains(s.Name, "nobody"):
			t.Errorf("%s is not needed", s.Name)
		}
	}
	if queues != len(Queues) {
		t.Errorf("%d queues", queues)
	}
}
