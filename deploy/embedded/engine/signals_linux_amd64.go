package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct sigaction on amd64: handler, flags, restorer
// and mask. It is only ever read and written whole.
type sigaction [4]uint64

// lastSignal is _NSIG of Linux.
const lastSignal = 64

// keepSignalHandlers runs open and then puts back every signal handler that
// open replaced. (The library has a switch to leave handlers alone,
// chdb_set_signal_handlers_enabled(0), but it also resets those of others.)
func keepSignalHandlers(open func() error) error {
	before := signalHandlers()
	err := open()
	for s, action := range signalHandlers() {
		if action != before[s] {
			rtSigaction(s, &before[s], nil)
		}
	}
	return err
}

// signalHandlers reads all dispositions; index 0 is unused.
func signalHandlers() (actions [lastSignal + 1]sigaction) {
	for s := 1; s <= lastSignal; s++ {
		rtSigaction(s, nil, &actions[s])
	}
	return actions
}

// rtSigaction goes to the kernel itself, since the Go runtime's own handlers
// must come back bit by bit. It fails only for KILL and STOP, which have none.
func rtSigaction(signal int, set, get *sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 8, 0, 0)
}
