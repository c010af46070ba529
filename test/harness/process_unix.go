// Copyright Contributors to the Open Cluster Management project

//go:build unix && !linux

package harness

import "syscall"

// Only Linux can tie a child's life to its parent's.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
