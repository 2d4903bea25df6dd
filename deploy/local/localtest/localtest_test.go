//go:build e2e

package localtest

import (
	"slices"
	"testing"
)

func TestAllTestsShareOne(t *testing.T) {
	first := ForTest(t)
	if again := ForTest(t); len(first) == 0 || !slices.Equal(first, again) {
		t.Errorf("got %v, then %v", first, again)
	}
}

func TestGivenBrokers(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "a:1,b:2")
	if got := ForTest(t); !slices.Equal(got, []string{"a:1", "b:2"}) {
		t.Errorf("got %v", got)
	}
}
