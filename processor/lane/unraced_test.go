//go:build !race

package lane_test

const slower = 1
