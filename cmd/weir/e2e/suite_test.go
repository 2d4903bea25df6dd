package e2e

import "testing"

// suite is what holds on every broker. Each test has a prefix of its own. Those
// that wait most of their time, and measure none, run side by side: after the
// others, for which nothing else is to be busy.
func suite(t *testing.T, brokers []string, sc scale) {
	beside := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	beside("lives", func(t *testing.T) { livesOfMessages(t, brokers) })
	beside("dead letters", func(t *testing.T) { deadLetters(t, brokers) })
	beside("bad input", func(t *testing.T) { badInput(t, brokers) })
	beside("inputs", func(t *testing.T) { inputs(t, brokers, sc) })
	beside("bad state", func(t *testing.T) { badState(t, brokers) })
	beside("shutdown", func(t *testing.T) { shutdown(t, brokers, sc) })
	beside("legacy limits", func(t *testing.T) { legacyLimits(t, brokers) })
	t.Run("policy", func(t *testing.T) { livePolicy(t, brokers, sc) })
	t.Run("failover", func(t *testing.T) { failover(t, brokers, sc) })
	t.Run("delays", func(t *testing.T) { delays(t, brokers, sc, nil) })
	t.Run("latency", func(t *testing.T) { latency(t, brokers, sc) })
	t.Run("replies", func(t *testing.T) { waited(t, brokers, sc) })
	t.Run("alerts", func(t *testing.T) { alertsOverKills(t, brokers, sc) })
	t.Run("exact", func(t *testing.T) { exact(t, brokers, sc) })
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	suite(t, []string{embedded(t).Addr()}, small)
}
