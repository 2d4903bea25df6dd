package redisserver

import "syscall"

// tied lets a child die with this process, also when that is killed.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
