// Package localtest gives tests an Apache Kafka.
//
// What it does not do: name topics. All tests of a process share the broker, so
// each takes a prefix of its own.
package localtest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/local"
)

// readyWithin bounds fetching and starting: a first fetch takes longest.
const readyWithin = 3 * time.Minute

var shared struct {
	once  sync.Once
	addrs []string
	err   error
}

// ForTest returns the addresses of a Kafka cluster: those of KAFKA_BROKERS (by
// commas) if it is set, else of one broker that all tests of this process share
// and that ends with the process, with its data.
//
// Where Java or Maven is missing it skips the test and says what to install; with
// CI set it fails the test.
func ForTest(t testing.TB) []string {
	t.Helper()
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		return strings.Split(given, ",")
	}
	shared.once.Do(func() { shared.addrs, shared.err = startShared() })
	switch err := shared.err; {
	case err == nil:
	case local.IsMissingTool(err) && os.Getenv("CI") == "":
		t.Skipf("NOT TESTED on Apache Kafka: %v", err)
	default:
		t.Fatal(err)
	}
	return shared.addrs
}

func startShared() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	lib, err := local.Ensure(ctx, "", os.Stderr)
	if err != nil {
		return nil, err
	}
	// Never stopped: it ends with this process.
	k, err := local.StartKafka(ctx, local.Options{LibDir: lib})
	if err != nil {
		return nil, err
	}
	return k.Addrs(), nil
}
