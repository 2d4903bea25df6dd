package e2e

import "testing"

// suite is what holds on every broker. Each test has a prefix of its own.
func suite(t *testing.T, brokers []string, sc scale) {
	t.Run("lives", func(t *testing.T) { livesOfMessages(t, brokers) })
	t.Run("dead letters", func(t *testing.T) { deadLetters(t, brokers) })
	t.Run("bad input", func(t *testing.T) { badInput(t, brokers) })
	t.Run("inputs", func(t *testing.T) { inputs(t, brokers, sc) })
	t.Run("bad state", func(t *testing.T) { badState(t, brokers) })
	t.Run("shutdown", func(t *testing.T) { shutdown(t, brokers, sc) })
	t.Run("policy", func(t *testing.T) { livePolicy(t, brokers) })
	t.Run("legacy limits", func(t *testing.T) { legacyLimits(t, brokers) })
	t.Run("failover", func(t *testing.T) { failover(t, brokers) })
	t.Run("delays", func(t *testing.T) { delays(t, brokers, nil) })
	t.Run("latency", func(t *testing.T) { latency(t, brokers, sc) })
	t.Run("replies", func(t *testing.T) { waited(t, brokers, sc) })
	t.Run("alerts", func(t *testing.T) { alertsOverKills(t, brokers, sc) })
	t.Run("exact", func(t *testing.T) { exact(t, brokers, sc) })
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	suite(t, []string{embedded(t).Addr()}, small)
}
