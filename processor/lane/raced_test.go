//go:build race

package lane_test

// slower is by how much the race detector may slow a test down that says how
// long something takes.
const slower = 5
