//go:build unix

package ingest

import "syscall"

// openFiles is how many files the process may have open; 0 is unknown.
func openFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}
