//go:build !unix

package child

import (
	"os"
	"syscall"
)

// Without inherited pipes (exec.Cmd.ExtraFiles) Start fails on such a system;
// these exist so that the rest of the program can be built for it.

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func closeOnExec(int) {}
