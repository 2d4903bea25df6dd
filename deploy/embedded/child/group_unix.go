//go:build unix

package child

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
