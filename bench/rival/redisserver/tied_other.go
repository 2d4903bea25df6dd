//go:build !linux

package redisserver

import "syscall"

// tied: only Linux lets a child die with its parent.
func tied() *syscall.SysProcAttr { return nil }
